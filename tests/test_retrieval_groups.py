"""Search, and so links and clusters, stay inside a group: a domain and a kind of mapped types."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import arbo
from arbo.retrieval import groups
from clustering import METHODS

DOMAINS = (None, "lego", "yugioh", "star trek")


def corpus_of(domains: Sequence[str | None], gold: Sequence[str | None] = ()) -> arbo.Corpus:
    """Make one document of one mention for each domain."""
    documents = []
    for i, domain in enumerate(domains):
        word, ids = f"word{i % 3}", (gold[i],) if i < len(gold) and gold[i] else None
        mention = arbo.Mention(f"m{i}", f"d{i}", ((0, 5),), word, gold=ids)
        documents.append(arbo.Document(f"d{i}", word, (mention,), domain))
    return arbo.Corpus(documents)


def kb_of(domains: Sequence[str | None]) -> arbo.KnowledgeBase:
    return arbo.KnowledgeBase(arbo.Entity(f"E{i}", f"entity {i}", domain=domain) for i, domain in enumerate(domains))


def encoder_of(mentions: np.ndarray[Any, Any], entities: Sequence[np.ndarray[Any, Any]]) -> arbo.VectorEncoder:
    """Look integer vectors up: inner products are exact, and many are equal."""
    rows = ({f"{prefix}{i}": row for i, row in enumerate(some)} for prefix, some in (("m", mentions), ("E", entities)))
    return arbo.VectorEncoder(*rows, metric="dot", limits=(100, 100))


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(0, 6), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_neighbours_are_the_nearest_of_the_domain(seed: int, k: int, candidates: int) -> None:
    """Against all inner products, sorted by value and then by row."""
    rng, n = np.random.default_rng(seed), 11
    of_mention = ["lego", *rng.choice(DOMAINS, 22).tolist()]
    of_entity = ["lego", *rng.choice(DOMAINS[:-1], n - 1).tolist()]  # no entity is in the last domain
    points = rng.integers(-2, 3, (len(of_mention), 3))
    names = [rng.integers(-2, 3, (1 + i % 2, 3)) for i in range(n)]  # entities have one vector or two
    linker = arbo.Linker(kb_of(of_entity), encoder_of(points, names), arbo.LinkerConfig(candidates=candidates))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_SMALL", [-1, groups._SMALL][seed % 2])  # whether small groups are searched in pairs
        retrieval = linker.retrieve(corpus_of(of_mention), k=k)
    entities = (retrieval.entities, of_entity, names, candidates)
    for found, domains, vectors, most in (entities, (retrieval.mentions, of_mention, points[:, None], k)):
        for m, domain in enumerate(of_mention):
            own = [(-int(max(v @ points[m] for v in some)), row) for row, some in enumerate(vectors)]
            own = [pair for pair in own if domains[pair[1]] == domain and (found is retrieval.entities or pair[1] != m)]
            padding = found.ids.shape[1] - len(expected := sorted(own)[:most])
            assert found.ids[m].tolist() == [row for _, row in expected] + [-1] * padding
            assert found.dissimilarity[m].tolist() == [value for value, _ in expected] + [np.inf] * padding


def test_a_mention_alone_and_one_without_an_entity() -> None:
    corpus = corpus_of(["lego", "yugioh", "muppets", "muppets"])
    encoder = encoder_of(np.eye(4, dtype=int)[[0, 1, 2, 2]], [np.eye(4, dtype=int)[i] for i in (0, 1, 2)])
    linker = arbo.Linker(kb_of(["yugioh", "lego", "lego"]), encoder, arbo.LinkerConfig(k=2))
    result = linker.link(corpus)
    assert [link.entity for link in result.links] == ["E1", "E0", None, None]
    assert [len(link.candidates) for link in result.links] == [2, 1, 0, 0]
    assert [link.margin is None for link in result.links] == [False, True, True, True]
    assert result.links[2].cluster == result.links[3].cluster
    assert str(result.explain("m2")).startswith('"word2" in d2 is NIL')
    retrieval = linker.retrieve(corpus, k=2)
    assert retrieval.mentions.ids.tolist() == [[-1, -1], [-1, -1], [3, -1], [2, -1]]
    assert retrieval.entities.ids.tolist() == [[1, 2, -1], [0, -1, -1], [-1, -1, -1], [-1, -1, -1]]


def test_a_gold_entity_of_another_domain_makes_a_mention_nil() -> None:
    """Nothing could link it: so say evaluation, tuning and what training looks at."""
    first, *others = kb_of(["lego", "yugioh", "lego"])
    kb = arbo.KnowledgeBase([first, *(replace(one, alternative_ids=("X",)) for one in others)])
    assert (kb.rows("X"), kb.rows_within(("E1", "X", "E0", "E2"), "lego")) == ((1, 2), (2, 0))
    corpus = corpus_of(["lego", "lego", "lego"], ["E0", "E1", "X"])
    linker = arbo.Linker(kb, encoder_of(np.eye(3), list(np.eye(3)[[0, 1, 2]])))
    result = linker.link(corpus)
    assert result.mention_table["gold_entities"].to_pylist() == [["E0"], [], ["E2"]]
    evaluation = result.evaluate()
    assert (evaluation.linking.in_kb, evaluation.nil.gold) == (2, 1)
    assert linker.tune(corpus, objective="nil_f1").tuning is not None  # which without any NIL is an error
    pytest.importorskip("torch")
    from arbo.training.data import TrainingSet

    assert TrainingSet.of(corpus, kb).rivals.id.tolist() == [0, len(kb), 2]


def test_domains_that_never_meet_are_wrong() -> None:
    for mentions, entities, shown in (
        (["lego", "lego"], [None, None], "the documents have 'lego', the knowledge base none;"),
        ([None], ["lego", "yugioh"], "the documents have none, the knowledge base 'lego', 'yugioh';"),
        (["a", "b", "c", "d", "e"], ["lego"], "the documents have 'a', 'b', 'c' and 2 more, the"),
    ):
        with pytest.raises(arbo.UsageError, match=shown):
            arbo.Linker(kb_of(entities)).link(corpus_of(mentions))
        assert len(arbo.Linker(kb_of(entities)).discover(corpus_of(mentions)).links) == len(mentions)
        assert len(arbo.Linker(kb_of(entities)).link([]).links) == 0
        assert {link.entity for link in arbo.Linker([]).link(corpus_of(mentions)).links} == {None}


KB = arbo.KnowledgeBase([
    arbo.Entity("D", "flu", types=("disease",)),
    arbo.Entity("C", "flu", types=("other", "drug", "disease")),
    arbo.Entity("X", "flu"),
])  # fmt: skip
TYPES = ("Chemical", "Disease", None)
ROWS = [{"spans": [[4 * at, 4 * at + 3]], "type": type_, "entities": ["D"]} for at, type_ in enumerate(TYPES)]
DOCUMENT = {"id": "d", "text": "flu flu flu", "mentions": ROWS}
BOTH = "Chemical=drug,Disease=disease"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("types", "linked"),
    [
        (None, ["D", "D", "D"]),
        (BOTH, ["C", "D", "X"]),
        (" Chemical = drug, Disease=disease", ["C", "D", "X"]),
        ("Chemical=drug", ["C", "D", "D"]),  # the others are one group
        ("Chemical=drug,Chemical=disease,Disease=disease", ["D", "D", "X"]),  # joined by a type
        ("Disease=disease", ["X", "D", "X"]),
    ],
)
def test_mentions_are_linked_to_entities_of_their_types(method: Any, types: Any, linked: list[str]) -> None:
    result = arbo.Linker(KB, config=arbo.LinkerConfig(map_types=types, method=method)).link([DOCUMENT])
    assert [link.entity for link in result.links] == linked
    assert result.mention_table["gold_entities"].to_pylist() == [["D"]] * 3  # what is right is not changed


def test_mentions_of_other_types_are_never_in_one_cluster() -> None:
    for map_types, clusters in ((None, 1), ("Chemical=drug", 2), (BOTH, 3)):
        config = arbo.LinkerConfig(map_types=map_types)
        assert len(arbo.Linker(config=config).discover([DOCUMENT]).clusters) == clusters
    (told,) = arbo.Linker(config=arbo.LinkerConfig(map_types="Disease=disease")).discover([DOCUMENT]).warnings
    assert told.startswith("2 of 3 mentions have no mapped type (empty, Chemical): they are compared only with each")
    domains = [{**DOCUMENT, "id": name, "domain": name} for name in "ab"]
    for place, document in enumerate(domains):
        document["mentions"] = [{"spans": [[place, 3]], "type": "Disease"}]
    assert len(arbo.Linker(config=arbo.LinkerConfig(map_types=BOTH)).discover(domains).clusters) == 2


def test_a_map_that_cannot_be_meant() -> None:
    for types, problem in (
        ("Chem=drug", "no mention has the type Chem; mention types found: Chemical, Disease$"),
        ("Chemical=drugs,Disease=disease", "no entity has the type drugs; entity types found: disease, drug, other$"),
        *((bad, "must be like 'Chemical=drug,Disease=disease'") for bad in ("Chemical", "", "a=", "a=b=c", "a=b,")),
        (5, "must be a string or None, not 5"),
    ):
        with pytest.raises(arbo.UsageError, match=f"map_types:? {problem}"):
            arbo.Linker(KB, config=arbo.LinkerConfig(map_types=types)).link([DOCUMENT])
