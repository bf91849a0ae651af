"""Names that annotated documents give to entities."""

from pathlib import Path
from typing import Any

import pytest
from builders import document, passage
from conftest import Run

import arbo
from arbo import DataError, Entity, KnowledgeBase
from arbo.data.corpus import Corpus
from arbo.kb.problems import problems_of

FLU, COLD = Entity("D1", "Flu", aliases=("Influenza",)), Entity("D2", "Cold", alternative_ids=("X2",))
NAMED = Entity("D2", "Cold", aliases=("FLU", "influenza", "Rhinitis"))
SPELT = Entity("D2", "Cold", aliases=("marsh  fever", "STRASSE"))


@pytest.mark.parametrize(
    ("second", "mentions", "first_aliases", "second_aliases"),
    [
        # The first spelling stays; an alternative id is the entity's.
        (
            COLD,
            [("Grippe", ["D1"]), ("influenza", ["D1"]), ("grippe", ["D1"]), ("sniffles", ["X2"])],
            ("Influenza", "Grippe"),
            ("sniffles",),
        ),
        # A name of several entities goes to the most frequent, then to the first.
        (
            COLD,
            [("Bug", ["D2"]), ("bug", ["D1"]), ("BUG", ["D2"]), ("virus", ["D2"]), ("virus", ["D1"])],
            ("Influenza", "virus"),
            ("Bug",),
        ),
        # What documents call one entity is no alias of another, but a preferred name stays.
        (NAMED, [("flu", ["D1"]), ("Influenza", ["D2"]), ("cold", ["D1"])], ("cold",), ("influenza", "Rhinitis")),
        # Mentions without an entity give no name; of several ids, the first that is known counts.
        (
            COLD,
            [("plague", ["D9"]), ("ache", []), ("rash", None), ("sniffles", ["D9", "X2", "D1"])],
            ("Influenza",),
            ("sniffles",),
        ),
        # Case and white space make no other name.
        (
            SPELT,
            [("Marsh\nfever", ["D1"]), ("marsh fever", ["D1"]), ("straße", ["D1"]), (" ", ["D1"])],
            ("Influenza", "Marsh fever", "straße"),
            (),
        ),
    ],
)
def test_names_of_mentions_become_aliases(
    second: Entity, mentions: list[Any], first_aliases: tuple[str, ...], second_aliases: tuple[str, ...]
) -> None:
    named = KnowledgeBase([FLU, second]).with_names_of([document("1", *mentions)])
    assert [entity.aliases for entity in named] == [first_aliases, second_aliases]
    assert [entity.name for entity in named] == ["Flu", "Cold"]


def test_notes_are_counted_once_and_documents_without_a_known_entity_are_refused() -> None:
    kb = KnowledgeBase([FLU, Entity("D3", "Ache", alternative_ids=("X2", "D1")), COLD], {"something": 2})
    assert kb.with_names_of([document("1", ("grippe", ["D1"]))]).notes == kb.notes
    for documents in ([], [document("1", ("plague", ["D9"]))], [document("1", ("plague", None))]):
        with pytest.raises(DataError, match="no names to add"):
            kb.with_names_of(documents)


def test_domains_are_apart() -> None:
    kb = KnowledgeBase([Entity("A", "flu", domain="a"), Entity("B", "flu", domain="b")])
    documents = [document(id_, ("bug", ["A", "B"]), domain=id_[0]) for id_ in ("a", "b1", "b2")]
    assert [entity.aliases for entity in kb.with_names_of(documents)] == [("bug",), ("bug",)]


def test_abbreviations_are_written_out_as_in_linking() -> None:
    marked = passage("1", "Tick borne encephalitis (TBE) is rare.", "TBE", gold=["D1"])
    kb = KnowledgeBase([FLU])
    assert kb.with_names_of([marked])["D1"].aliases == ("Influenza", "Tick borne encephalitis")
    assert kb.with_names_of([marked], expand_abbreviations=False)["D1"].aliases == ("Influenza", "TBE")


def test_the_command_writes_a_knowledge_base(tmp_path: Path, run: Run) -> None:
    kb, documents, out = tmp_path / "kb.jsonl", tmp_path / "d.jsonl", tmp_path / "new" / "kb.jsonl"
    KnowledgeBase([FLU, COLD]).to_jsonl(kb)
    Corpus.of([document("1", ("Grippe", ["D1"]), ("flu", ["D1"]))]).to_jsonl(documents)
    command = ["kb", "edit", kb, "--add-names", documents, "--kb-format", "jsonl", "--format", "jsonl", "--out"]
    assert "names added: 1, names moved: 0" in run(*command, out).out
    assert arbo.read_knowledge_base(out)["D1"].aliases == ("Influenza", "Grippe")
    before = kb.read_bytes()
    assert [run(*command, wrong).code for wrong in (kb, tmp_path / "kb.obo")] == [2, 2]
    assert kb.read_bytes() == before


@pytest.mark.parametrize(
    ("n", "name", "others", "generic"),
    [
        (20, "Diseases", "{} disease", ["Diseases"]),
        (20, "disease", "Disease, {}", ["disease"]),
        (19, "disease", "{} disease", []),  # too few
        (20, "disease", "{} disease 7", []),  # not the head
        (20, "old disease", "{} old disease", []),  # more than a word
        (260, "disease", "{} disease", ["disease"]),
    ],
)
def test_a_generic_name_heads_the_names_of_many_others(n: int, name: str, others: str, generic: list[str]) -> None:
    heads = [arbo.Entity(f"E{row}", others.format(f"x{row}")) for row in range(n)]
    kb = arbo.KnowledgeBase([arbo.Entity("A", name), *heads, *(arbo.Entity(f"F{row}", "flu") for row in range(200))])
    assert kb.generic_names() == generic
    found = [problem for problem in problems_of(kb) if problem.kind == "generic-name"]
    assert [problem.examples[0].entities for problem in found] == ([("A",)] if generic else [])
    few = arbo.KnowledgeBase([*kb, *(arbo.Entity(f"G{row}", "flu") for row in range(4000))])  # less than 8 %
    assert few.generic_names() == []
