"""Results are those of a set of documents: the order in which they come decides only rows and names."""

from typing import Any

from builders import document, linker
from hypothesis import given, settings, strategies as st

import arbo
from clustering import METHODS

NAMES = ["marsh fever", "marsh fevers", "fever", "kelp blight", "kelp", "zzz", "zzz fever", "marsh kelp"]
KB = arbo.KnowledgeBase(
    [arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "marsh fever"), arbo.Entity("E3", "kelp blight")]
)


@st.composite
def collections(draw: st.DrawFn, domains: bool = False) -> list[arbo.Document]:
    """Draw documents that share names, so that many neighbours are equally near."""
    texts = draw(st.lists(st.lists(st.sampled_from(NAMES), max_size=4), min_size=1, max_size=9))
    return [
        document(f"d{i}", *own, domain=draw(st.sampled_from([None, "x"])) if domains else None)
        for i, own in enumerate(texts)
    ]


def tables(result: arbo.Result) -> tuple[list[dict[str, Any]], ...]:
    """Return the tables as rows by id, with each discovered entity called by its alphabetically first mention."""
    links = sorted(result.link_table.to_pylist(), key=lambda row: row["mention_id"])
    name: dict[str, str] = {}
    for row in links:
        name.setdefault(row["cluster_id"], row["entity_id"] or row["mention_id"])
    clusters = result.cluster_table.to_pylist()
    for row in (*links, *clusters):
        row["cluster_id"] = name[row["cluster_id"]]
    mentions = sorted(result.mention_table.to_pylist(), key=lambda row: row["mention_id"])
    return links, clusters, mentions, result.entity_table.to_pylist()


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(METHODS), st.integers(0, 3), st.sampled_from(["single", "average"]))
def test_any_order_of_documents_gives_the_same_tables(data: st.DataObject, method: Any, k: int, nil: Any) -> None:
    documents = data.draw(collections())
    shuffled = data.draw(st.permutations(documents))
    settings_ = {"method": method, "k": k, "nil_linkage": nil}
    assert str(tables(linker(KB, **settings_).link(documents))) == str(tables(linker(KB, **settings_).link(shuffled)))
    found, again = (linker(**settings_).discover(one) for one in (documents, shuffled))
    assert str(tables(found)) == str(tables(again))


def first_mentions(result: arbo.Result) -> set[str]:
    first: dict[str, str] = {}
    for link in result.links:
        first.setdefault(link.cluster, link.mention.id)
    return {f"new-{id_}" for id_ in first.values()}


@settings(max_examples=30, deadline=None)
@given(collections(domains=True))
def test_a_discovered_entity_is_called_by_its_first_mention_as_they_came(documents: list[arbo.Document]) -> None:
    for came in (documents, documents[::-1]):
        found = arbo.Linker().discover(came)
        assert {cluster.id for cluster in found.discovered} == first_mentions(found)
        assert [link.mention.id for link in found.links] == [m.id for one in came for m in one.mentions]


def test_rows_of_vectors_are_those_of_the_documents_as_they_came() -> None:
    documents = [document(name, "one", "two") for name in "cab"]
    by_id = {mention.id: [float(i + 1), float(i % 3)] for i, one in enumerate(documents) for mention in one.mentions}
    by_row = arbo.VectorEncoder(list(by_id.values()))
    found, again = (arbo.Linker(encoder=one).discover(documents) for one in (by_row, arbo.VectorEncoder(by_id)))
    assert found.link_table == again.link_table


def test_tuning_scores_the_mentions_that_it_ranks() -> None:
    named = [("marsh fever", ["E1"]), ("kelp blight", ["E3"]), ("zzz", [])]
    documents = [document(f"d{9 - i}", *named[: 1 + i % 3]) for i in range(9)]
    tuning = linker(KB).tune(documents).tuning
    assert tuning.best.score == 1
