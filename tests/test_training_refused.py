"""What cannot be trained, and why."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from training_builders import DOCUMENTS, KB, QUICK, QUICK_CROSS, READS, cross, document, encoder, marked, sample, tiny

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.training.config import WITHOUT_KB

pytestmark = pytest.mark.slow


TWO, ALONE = marked((("A",), None), (("A",), None)), marked((("A",), None), (None, "A2"), (None, None))
LONELY = arbo.Corpus([document("d", "the marsh fever", ["E0"])])
ONE_ENTITY = arbo.KnowledgeBase([arbo.Entity("E0", "fever", aliases=("marsh",))])
ONE_NAME = arbo.KnowledgeBase([arbo.Entity("E", "fever", aliases=("FEVER",)), arbo.Entity("F", "cancer")])
OTHER = arbo.KnowledgeBase([arbo.Entity(f"Z{i}", "nothing of the kind") for i in range(2)])
ELSEWHERE = arbo.Corpus(replace(document, domain="elsewhere") for document in sample().dev)


def dual_of(documents: Any = None, kb: Any = None, start: Any = encoder, dev: Any = None, **changes: Any) -> Any:
    """Return a function that trains a dual-encoder, without a knowledge base unless ``documents`` is None."""
    config = replace(WITHOUT_KB if documents is not None and kb is None else QUICK, **changes)
    documents, kb = (sample().train, kb or sample().kb) if documents is None else (documents, kb)
    return lambda bert, out: arbo.train(start(bert), documents, kb, out=out, dev=dev, config=config)


def cross_of(linker: arbo.Linker, dev: Any = None, **changes: Any) -> Any:
    return lambda bert, out: arbo.train_reranker(cross(bert, **changes), linker, sample().train, out=out, dev=dev)


def names_of(kb: Any, start: Any = encoder) -> Any:
    return lambda bert, out: arbo.train_self_alignment(start(bert), kb, out=out)


def finder_of(documents: Any, kb: Any) -> Any:
    return lambda bert, out: arbo.train_oslat(arbo.LabelAttention.of(bert, READS), documents, kb, out=out)


def two_towers(bert: Tower) -> arbo.DualEncoder:
    return encoder(bert).with_two_towers()


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (dual_of(TWO, []), r"needs a knowledge base, not list; read one, .* KnowledgeBase\.of"),
        (names_of([]), "needs a knowledge base, not list"),
        (finder_of(DOCUMENTS, None), "needs a knowledge base, not NoneType"),
        (dual_of(negatives="in-batch", batch_size=1), "a batch of one mention has none; choose a larger batch_size"),
        (dual_of(marked((None, None)), KB), r"nothing to train on: no mention \(of 1\) has a gold id; annotate"),
        (dual_of(kb=OTHER), "nothing to train on: no annotated mention"),
        (dual_of(dev=ELSEWHERE), "nothing to choose the best model by"),
        (dual_of(TWO, positives="entity"), "positives 'entity' needs a knowledge base; without one, choose for"),
        (dual_of(TWO, negatives="mixed"), "negatives 'mixed' needs a knowledge base"),
        (dual_of(TWO, best="recall@16"), "best 'recall@16' needs a knowledge base; without one, choose 'ari'"),
        (dual_of(TWO, start=two_towers), "two towers needs a knowledge base; without one"),
        (dual_of(ALONE), r"nothing to train on: no two annotated mentions \(of 2\)"),
        (dual_of(marked((None, None))), r"no mention \(of 1\) has a gold id or gold cluster; annotate"),
        (dual_of(TWO, dev=ALONE), "nothing to choose the best model by: no two"),
        (cross_of(arbo.Linker()), "training needs a knowledge base"),
        (lambda bert, out: cross_of(arbo.Linker(sample().kb, reranker=cross(bert)))(bert, out), "has a reranker"),
        (cross_of(arbo.Linker(sample().kb), candidates=1), "at least 2 candidates, not 1; set candidates"),
        (cross_of(arbo.Linker(list(sample().kb)[:1])), "at least 2 candidates, not 1; .* a larger knowledge base"),
        (cross_of(arbo.Linker(OTHER)), "nothing to train on"),
        (cross_of(arbo.Linker(sample().kb), dev=ELSEWHERE), "nothing to choose the best model by"),
        (finder_of([document("d", "mention", ["E3"])], KB), r"to train on: no entity \(of 1\) has two names"),
        (finder_of([document("d", "mention", ["E9"])], KB), r"nothing to train on: no text \(of 1\) has an entity"),
        (finder_of(DOCUMENTS[2:3], ONE_ENTITY), "nothing to train on: names need names of other entities"),
        (finder_of(LONELY, KB), "nothing to train on: names need names of other entities"),
        (names_of(ONE_ENTITY), "nothing to train on: names need names of other entities"),
        (names_of(ONE_NAME), r"nothing to train on: no entity \(of 2\) has two names that differ"),
        (names_of(KB, two_towers), "separate tower for mentions"),
        (names_of(KB, partial(encoder, entity_view="whole")), "needs one vector per name"),
    ],
)
def test_what_cannot_be_trained(bert: Tower, tmp_path: Path, train: Any, words: str) -> None:
    with pytest.raises((UsageError, DataError), match=words):
        train(bert, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_knowledge_base_smaller_than_the_candidates(bert: Tower, tmp_path: Path) -> None:
    documents, kb = tiny([("E1",), ("E2", "E3"), None])
    start, out = cross(bert, candidates=64), tmp_path / "cross"
    trained = arbo.train_reranker(start, arbo.Linker(kb), documents, dev=documents, out=out, config=QUICK_CROSS)
    assert trained.config.candidates == 64
