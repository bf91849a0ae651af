"""Results are those of a set of documents: the order in which they come decides only rows and names."""

from builders import document, linker
from conftest import Sample

import arbo

KB = arbo.KnowledgeBase(
    [arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "marsh fever"), arbo.Entity("E3", "kelp blight")]
)


def first_mentions(result: arbo.Result) -> set[str]:
    first: dict[str, str] = {}
    for link in result.links:
        first.setdefault(link.cluster, link.mention.id)
    return {f"new-{id_}" for id_ in first.values()}


def test_a_discovered_entity_is_called_by_its_first_mention_as_they_came(sample: Sample) -> None:
    documents = list(sample[0])
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
