"""Names that annotated documents give to entities."""

from pathlib import Path

import pytest
from builders import document
from conftest import Run

import arbo
from arbo import DataError, Document, Entity, KnowledgeBase
from arbo.data.corpus import Corpus


def aliases(kb: KnowledgeBase, *documents: Document) -> dict[str, tuple[str, ...]]:
    return {entity.id: entity.aliases for entity in kb.with_names_of(documents)}


FLU, COLD = Entity("D1", "Flu", aliases=("Influenza",)), Entity("D2", "Cold", alternative_ids=("X2",))


def test_an_entity_is_also_called_what_its_mentions_say() -> None:
    found = aliases(
        KnowledgeBase([FLU, COLD]),
        document("1", ("Grippe", ["D1"]), ("influenza", ["D1"]), ("grippe", ["D1"]), ("sniffles", ["X2"])),
    )
    assert found == {"D1": ("Influenza", "Grippe"), "D2": ("sniffles",)}


def test_a_name_of_several_entities_goes_to_the_most_frequent_then_to_the_first() -> None:
    kb = KnowledgeBase([FLU, COLD])
    often = document("1", ("Bug", ["D2"]), ("bug", ["D1"]), ("BUG", ["D2"]), ("virus", ["D2"]), ("virus", ["D1"]))
    assert aliases(kb, often) == {"D1": ("Influenza", "virus"), "D2": ("Bug",)}


def test_what_documents_call_one_entity_is_no_alias_of_another() -> None:
    kb = KnowledgeBase([FLU, Entity("D2", "Cold", aliases=("FLU", "influenza", "Rhinitis"))])
    found = aliases(kb, document("1", ("flu", ["D1"]), ("Influenza", ["D2"]), ("cold", ["D1"])))
    assert found == {"D1": ("cold",), "D2": ("influenza", "Rhinitis")}
    assert [entity.name for entity in kb.with_names_of([document("1", ("cold", ["D1"]))])] == ["Flu", "Cold"]


def test_what_has_no_entity_gives_no_name() -> None:
    kb = KnowledgeBase([FLU, COLD])
    some = document("1", ("plague", ["D9"]), ("ache", []), ("rash", None), ("sniffles", ["D2"]))
    assert aliases(kb, some) == {"D1": ("Influenza",), "D2": ("sniffles",)}
    assert aliases(kb, document("1", ("plague", ["D9", "X2", "D1"])))["D2"] == ("plague",)


def test_case_and_white_space_make_no_other_name() -> None:
    kb = KnowledgeBase([FLU, Entity("D2", "Cold", aliases=("marsh  fever", "STRASSE"))])
    found = aliases(
        kb, document("1", ("Marsh\nfever", ["D1"]), ("marsh fever", ["D1"]), ("straße", ["D1"]), (" ", ["D1"]))
    )
    assert found == {"D1": ("Influenza", "Marsh fever", "straße"), "D2": ()}


def test_documents_without_a_known_entity_are_refused() -> None:
    kb = KnowledgeBase([FLU])
    for documents in ([], [document("1", ("plague", ["MESH:9"]))], [document("1", ("plague", None))]):
        with pytest.raises(DataError, match="no names to add"):
            kb.with_names_of(documents)


def test_what_the_source_noted_is_counted_once() -> None:
    kb = KnowledgeBase([FLU, Entity("D3", "Ache", alternative_ids=("X2", "D1")), COLD], {"something": 2})
    assert kb.with_names_of([document("1", ("grippe", ["D1"]))]).notes == kb.notes


def test_domains_are_apart() -> None:
    kb = KnowledgeBase([Entity("A", "flu", domain="a"), Entity("B", "flu", domain="b")])
    documents = (document(id_, ("bug", ["A", "B"]), domain=id_[0]) for id_ in ("a", "b1", "b2"))
    assert aliases(kb, *documents) == {"A": ("bug",), "B": ("bug",)}


def test_abbreviations_are_written_out_as_in_linking() -> None:
    text = "Tick borne encephalitis (TBE) is rare. TBE is a disease."
    begin = text.index("TBE is")
    marked = {"id": "1", "text": text, "mentions": [{"spans": [[begin, begin + 3]], "entities": ["D1"]}]}
    kb = KnowledgeBase([FLU])
    assert kb.with_names_of([marked])["D1"].aliases == ("Influenza", "Tick borne encephalitis")
    assert kb.with_names_of([marked], expand_abbreviations=False)["D1"].aliases == ("Influenza", "TBE")


def test_the_sample_is_linked_better_with_names_of_its_own_documents() -> None:
    documents, kb = arbo.load_sample()
    config = arbo.LinkerConfig("independent", 1, None, None)
    before, after = (
        arbo.Linker(base, config=config).link(documents).evaluate().linking
        for base in (kb, kb.with_names_of(documents))
    )
    assert before is not None
    assert after is not None
    assert after.accuracy > before.accuracy
    assert kb.with_names_of(documents).fingerprint == kb.with_names_of(documents).fingerprint != kb.fingerprint


def test_the_command_writes_a_knowledge_base(tmp_path: Path, run: Run) -> None:
    kb, documents, out = tmp_path / "kb.jsonl", tmp_path / "d.jsonl", tmp_path / "new" / "kb.jsonl"
    KnowledgeBase([FLU, COLD]).to_jsonl(kb)
    Corpus.of([document("1", ("Grippe", ["D1"]), ("flu", ["D1"]))]).to_jsonl(documents)
    command = ["kb", "add-names", str(kb), str(documents), "--kb-format", "jsonl", "--format", "jsonl", "--out"]
    done = run(*command, str(out))
    assert done.code == 0, done.err
    assert "1 name added, 0 removed" in done.out
    assert KnowledgeBase.from_jsonl(out)["D1"].aliases == ("Influenza", "Grippe")
    before = kb.read_bytes()
    for wrong in (kb, tmp_path / "kb.obo"):
        refused = run(*command, str(wrong))
        assert refused.code == 2
        assert "--out" in refused.err
    assert kb.read_bytes() == before
