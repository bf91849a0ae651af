"""Learn what annotated documents teach in a minute or two: names, thresholds, edges, and a tagger of mentions.

The documents are divided by the hashes of their ids. Three fifths teach, another chooses the thresholds, and the last,
which is kept apart, says what each step brings; a step that brings nothing is left out. In the end all documents give
their names and train the tagger.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from arbo.data import Corpus, Gold
from arbo.data.fingerprint import hash_of
from arbo.errors import DataError, UsageError
from arbo.linker import Linker
from arbo.spans.evaluation import found_scores
from arbo.spans.finding import DictionaryFinder, Finder, find
from arbo.spans.tagger import Tagger
from arbo.training.edges import train_edges
from arbo.training.tagger import train_tagger

_PARTS = (0, 1, 2), (3,), (4,), (0, 1, 2, 3)
"""Fifths of the documents: those that teach, that choose, that are kept apart, and all but these."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What annotated documents taught."""

    linker: Linker
    """The linker, whose entities have the names of the documents and, if that is better, edges and tuned settings."""
    tagger: Tagger | None
    """What finds mentions in raw texts; None if it was not asked for, or the dictionary is better."""
    lines: tuple[str, ...]
    """What each step brought."""


def learn(linker: Linker, documents: Iterable[Any], *, finds: bool = False, tunes: bool = True) -> Learnt:
    """Return a linker that learnt from annotated documents and, if it ``finds``, a tagger of raw texts.

    ``tunes`` says whether to choose settings, see `Linker.tune`, and to learn edges unless the linker has a reranker.
    Raise UsageError if the linker has no knowledge base, DataError if no mention has an entity of the knowledge base.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> learnt = arbo.learn(arbo.Linker(kb), documents[:60])
    >>> learnt.lines[0]
    'names: right decisions 0.821 -> 0.836 on 11 documents kept apart'
    """
    corpus, expand, base = Corpus.of(documents), linker.config.expand_abbreviations, linker.kb
    if base is None:
        raise UsageError("names are learnt for a knowledge base, but the linker has none; use Linker(kb)")
    fifth = np.array([int(hash_of(document.id)) % 5 for document in corpus])
    parts = [corpus.of_tables(corpus.tables.taken(np.flatnonzero(np.isin(fifth, some)))) for some in _PARTS]
    teach, choose, apart, others = parts

    def named(part: Corpus) -> Linker:
        return linker.configured(kb=base.with_names_of(part, expand_abbreviations=expand))

    if not all(len(part) and Gold.of(part, base).in_kb.any() for part in parts):
        return Learnt(named(corpus), None, ("too few documents to keep some apart: their names are added",))
    whole, lines = named(corpus).kb, list[str]()
    if whole and whole.fingerprint == base.fingerprint:
        lines.append("no names: the knowledge base has those of all documents, which flatters what follows")

    def helps(what: str, before: float, after: float, score: str = "right decisions") -> bool:
        verdict = "" if after >= before else ", so it is left out"
        lines.append(f"{what}: {score} {before:.3f} -> {after:.3f} on {len(apart):,} documents kept apart{verdict}")
        return after >= before

    measured, tagger = named(others), None
    bare, known = _right(linker, apart), _right(measured, apart)
    if not (has_names := helps("names", bare, known)):
        measured, known = linker, bare
    if tunes:
        start, steps = named(teach) if has_names else linker, {"thresholds": linker.edges}
        if linker.edges is None and linker.reranker is None:
            with suppress(DataError):  # the pairs of these documents are all right or all wrong
                steps["edges"] = train_edges(teach, choose, base, linker=linker, names=has_names)
        for what, edges in steps.items():
            tuned = start.configured(edges=edges).tune(choose)
            changed = measured.configured(edges=edges, config=tuned.config, tuning=tuned.tuning)
            if helps(what, known, right := _right(changed, apart)):
                measured, known = changed, right
    if finds:
        train = partial(train_tagger, kb=base, expand_abbreviations=expand, announce=linker.announce)
        before, after = (_linked(measured, finder, apart) for finder in (DictionaryFinder(expand), train(others)))
        tagger = train(corpus) if helps("tagger", before, after, "F1 of linked mentions") else None
    return Learnt(measured.configured(kb=whole) if has_names else measured, tagger, tuple(lines))


def _right(linker: Linker, documents: Corpus) -> float:
    """Return the share of annotated mentions with the right entity, or rightly without one."""
    return linker.link(documents).evaluate().accuracy_with_nil or 0.0


def _linked(linker: Linker, finder: Finder, documents: Corpus) -> float:
    """Return the F1 of exact mentions with the right entity that are found in the texts."""
    assert linker.kb is not None
    corpus = find(finder, documents, linker.kb, announce=linker.announce).corpus
    entities = linker.link(corpus).link_table["entity_id"].to_pylist()
    return found_scores(documents, corpus, linker.kb, entities).links.exact.f1
