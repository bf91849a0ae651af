"""Knowledge bases: figures, problems, xrefs, names of documents, and what is written to a file."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from builders import document, passage
from conftest import Run
from hypothesis import given, settings, strategies as st

import arbo
from arbo import DataError, Entity, KnowledgeBase
from arbo.data.corpus import Corpus
from arbo.errors import UsageError
from arbo.formats import read_documents, read_knowledge_base
from arbo.kb.names import homonyms, spellings
from arbo.kb.problems import _KINDS, Problem, figure_cells, figures_of, problems_of
from arbo.kb.saving import save
from arbo.text.names import normalize_name

KB = KnowledgeBase(
    [
        Entity("A", "left kidney", ("Kidneys", "reins", "reins"), "An organ.", ("Organ",), ("X1", "X2")),
        Entity("B", "kidney", (), " ", ("Organ", "Part"), ("X2",), xrefs=("MSH:1", "UMLS:2", "MSH:3", "bare", ":4")),
        Entity("C", "cold", definition="", domain="medicine"),
    ],
    notes={"obsolete terms ignored": 7},
)


def test_the_figures_of_a_small_knowledge_base() -> None:
    figures = figures_of(KB)
    assert json.loads(json.dumps(figures)) == figures
    assert figures == {
        **{"entities": 3, "names": 5, "distinct_names": 4, "ambiguous_names": 1, "definitions": 1, "notes": KB.notes},
        **{"types": {"Organ": 2, "Part": 1}, "domains": {"medicine": 1}},
        **{"xref_prefixes": {"MSH": 2, "": 2, "UMLS": 1}, "alternative_ids": 2, "shared_alternative_ids": 1},
    }
    assert ([*figures["types"]], figures_of(KnowledgeBase())["names"]) == (["Organ", "Part"], 0)
    assert figure_cells("types", figures["types"]) == ("types", "2", "Organ (2), Part (1)")
    prefixes = ("xref prefixes", "3", "MSH (2), none (2), UMLS (1)")
    assert figure_cells("xref_prefixes", figures["xref_prefixes"]) == prefixes
    assert figure_cells("entities", 3_000) == ("entities", "3,000", "")


NAMES = st.sampled_from(["it", "It", "its", "they", "kidney", "Kidneys", "x", "+"])


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), max_size=6))
def test_names_agree_with_brute_force(entities: list[tuple[str, list[str]]]) -> None:
    kb = KnowledgeBase(Entity(str(i), name, tuple(aliases)) for i, (name, aliases) in enumerate(entities))
    folds = [{normalize_name(name) for name in (entity.name, *entity.aliases)} for entity in kb]
    shared = {name for i, own in enumerate(folds) for j, other in enumerate(folds) if i < j for name in own & other}
    figures, names = figures_of(kb), spellings(kb)
    assert (figures["distinct_names"], figures["ambiguous_names"]) == (len(set().union(*folds)), len(shared))
    for (values, ids), _ in homonyms(kb, names):
        (name,) = set(map(normalize_name, values))
        assert ids == tuple(str(i) for i, own in enumerate(folds) if name in own)


FLU = Entity("D1", "flu", ("grippe",))
RAY = Entity("D3", "Ray X", alternative_ids=("X",))


def found(*entities: Entity) -> dict[str, Problem]:
    problems = problems_of(KnowledgeBase(entities))
    assert len({problem.kind for problem in problems}) == len(problems)
    return {problem.kind: problem for problem in problems}


def test_a_sound_knowledge_base_has_none() -> None:
    cold = Entity("D2", "cold", ("common cold",), "A disease.", alternative_ids=("X1",), xrefs=("MSH:D1", "UMLS:C1"))
    assert (found(FLU, cold), found()["empty"].severity) == ({}, "error")
    assert all(problem.severity == "warning" for problem in problems_of(arbo.load_sample()[1]))


def test_each_problem_is_found_alone() -> None:
    for kind, severity, entities, examples in (
        ("padded-id", "error", [Entity(" D2", "cold")], [((" D2",), (" D2",))]),
        ("padded-id", "error", [Entity("D2", "cold", alternative_ids=("X1\t",))], [(("X1\t",), ("D2",))]),
        ("indistinguishable", "warning", [Entity("D2", "Grippe", ("Flu",))], [(("flu", "Grippe"), ("D1", "D2"))]),
        ("indistinguishable", "warning", [Entity("D2", "x ray"), RAY], [(("x ray", "Ray X"), ("D2", "D3"))]),
        ("name-is-alias", "warning", [Entity("D2", "cold", ("x ray",)), RAY], [(("x ray", "Ray X"), ("D2", "D3"))]),
        ("same-name", "warning", [Entity("D2", "Flu", ("cold",))], [(("flu", "Flu"), ("D1", "D2"))]),
        ("name-is-alias", "warning", [Entity("D2", "cold", ("flu",))], [(("flu",), ("D1", "D2"))]),
        ("shared-alias", "warning", [Entity("D2", "cold", ("Grippe",))], [(("grippe", "Grippe"), ("D1", "D2"))]),
        ("alternative-id-taken", "warning", [Entity("D2", "cold", alternative_ids=("D1",))], [(("D1",), ("D2",))]),
        ("alternative-id-shared", "warning", [replace(RAY, id="D2", name="cold"), RAY], [(("X",), ("D2", "D3"))]),
    ):
        problems = found(FLU, *entities)
        assert (set(problems), problems[kind].severity) == ({kind}, severity)
        assert (problems[kind].count, list(problems[kind].examples)) == (len(examples), examples)


def test_what_readers_count_is_a_problem_unless_it_is_right(tmp_path: Path) -> None:
    flu = '[Term]\nid: D1\nname: flu\nsynonym: "" EXACT []\nsynonym: bare\nsynonym: bare\ndef: bare\n'
    others = "[Term]\nid: D2\n[Term]\nname: no id\n[Term]\nid: D3\nis_obsolete: true\nreplaced_by: D1\n"
    (tmp_path / "kb").write_text(flu + flu + others)
    kb = read_knowledge_base(tmp_path / "kb", "obo", on_error="skip")
    told = {problem.wrong: (problem.kind, problem.severity, problem.count) for problem in problems_of(kb)}
    assert told == {
        "malformed entities skipped": ("malformed-entity", "error", 1),
        "malformed synonyms ignored": ("malformed-synonym", "error", 4),
        "malformed definitions ignored": ("malformed-definition", "error", 2),
        "terms named by their id": ("no-name", "warning", 1),
        "empty aliases dropped": ("empty-alias", "warning", 1),
        "duplicate entities dropped": ("duplicate-entity", "warning", 1),
    }
    assert set(kb.notes) - set(told) == {"obsolete terms ignored", "obsolete terms mapped to their replacement"}
    notes = [wrong for wrong, _ in [*_KINDS.values()][:7]]
    assert {*told, "malformed lines skipped"} == {*notes}, "a note without a file that makes it occur"
    assert {*re.findall(r"--([a-z-]+)", str(_KINDS))} == {"set"}, "other options may be gone"


def test_errors_come_first_and_examples_are_few() -> None:
    entities = [Entity(f" {i}", f"name of {i}", ("it", *(["they"] if i < 9 else []))) for i in range(5000)]
    problems = problems_of(KnowledgeBase(entities))
    assert [(p.kind, p.count) for p in problems] == [("padded-id", 5000), ("shared-alias", 2)]
    assert str(problems[1].examples[0]) == '"it":  0,  1,  2 and 4,997 more'
    assert len(json.dumps([problem.as_dict() for problem in problems])) < 5000


HP = {"alternative-id-taken": 1}
MEDIC = {"indistinguishable": 12, "name-is-alias": 338, "shared-alias": 688, **HP}


@pytest.mark.slow
def test_published_knowledge_bases_have_warnings_alone(shared: Callable[[str], Path]) -> None:
    for name, counts in (("medic/medic_06Jul2012.txt", MEDIC), ("gsc_plus/hp_2013-11-30.obo.gz", HP)):
        problems = problems_of(read_knowledge_base(shared(f"data/{name}")))
        assert {problem.severity for problem in problems} == {"warning"}
        assert {problem.kind: problem.count for problem in problems}.items() >= counts.items()


DO_FLU = Entity("DO:1", "flu", xrefs=("MSH:D1", "UMLS_CUI:C1", "no prefix"))
BIRD_FLU = Entity("DO:2", "bird flu", xrefs=("MSH:D1", "MeSH:D2", "MSH:"))
COLD = Entity("DO:3", "cold", alternative_ids=("D2",), xrefs=("OMIM:5", "MSH:DO:1", "MSH:D3"))
DO = KnowledgeBase([DO_FLU, BIRD_FLU, COLD], notes={"seen before": 1})

SPELT = {f"{spelling}{id_}": rows for spelling in ("", "MSH:", "MESH:", "MeSH:") for id_, rows in
         (("D1", (0, 1)), ("D3", (2,)))}  # fmt: skip


def test_an_entity_answers_to_its_xrefs_in_any_spelling() -> None:
    for prefixes, rows_of in (
        ((), {"D2": (2,), "D1": (), "DO:1": (0,)}),
        *(((prefix,), {**SPELT, "C1": (), "UMLS_CUI:C1": (), "5": ()}) for prefix in ("MSH", "MESH", "MeSH", "mesh")),
        (("MSH",), {"DO:1": (0,), "MSH:DO:1": (2,), "D2": (1, 2)}),  # what it answered to before, it still does
        (("UMLS", "OMIM"), {**dict.fromkeys(("UMLS:C1", "UMLS_CUI:C1", "C1"), (0,)), "D1": ()}),
        (("UMLS", "OMIM"), dict.fromkeys(("5", "OMIM:5", "MIM:5"), (2,))),
    ):
        view = DO.through_xrefs(*prefixes) if prefixes else DO
        assert {id_: view.rows(id_) for id_ in rows_of} == rows_of
        assert [entity.xrefs for entity in view] == [entity.xrefs for entity in (DO_FLU, BIRD_FLU, COLD)]


def test_gold_is_right_for_every_entity_that_has_the_id_and_notes_count_it_once() -> None:
    view = DO.through_xrefs("MSH")
    assert (view["D1"].name, view.rows_within(("MESH:D2", "D1", "D9"), None)) == ("flu", (1, 0))
    taken = "alternative ids equal to another entity's own id ignored"
    assert view.notes == {"seen before": 1, "alternative ids shared with an earlier entity": 5, taken: 1}
    assert (view.through_xrefs("MSH").notes, view.through_xrefs("MSH")) == (view.notes, view)


def test_a_prefix_that_no_xref_has_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no xref has the prefix NCI; the most .*: MSH \(5\), UMLS_CUI \(1\)"):
        DO.through_xrefs("MSH", "NCI")
    with pytest.raises(UsageError, match="no xref has the prefix MSH; the most frequent prefixes of xrefs: none"):
        KnowledgeBase().through_xrefs("MSH")


def test_an_id_that_thousands_share_is_answered_by_each() -> None:
    kb = KnowledgeBase(Entity(f"e{i}", "it", alternative_ids=("it", "it")) for i in range(20_000))
    assert kb.rows("it") == tuple(range(20_000))
    assert kb.notes == {"alternative ids shared with an earlier entity": 19_999}


def test_a_real_corpus_is_linked_to_the_disease_ontology_through_mesh(shared: Callable[[str], Path]) -> None:
    view = read_knowledge_base(shared("data/disease_ontology/HumanDO_2015-11-11.obo.gz")).through_xrefs("MSH")
    golds = [mention.gold for mention in read_documents(shared("data/ncbi_disease/NCBItestset_corpus.txt")).mentions]
    # Published: mentions whose ids are all found. A few composite ones have only some.
    assert sum(bool(gold) and all(concept in view for concept in gold or ()) for gold in golds) == 714
    assert sum(bool(view.rows_within(gold or (), None)) for gold in golds) == 717


D1, D2 = Entity("D1", "Flu", aliases=("Influenza",)), Entity("D2", "Cold", alternative_ids=("X2",))
NAMED = Entity("D2", "Cold", aliases=("FLU", "influenza", "Rhinitis"))
SHOUTED = Entity("D2", "Cold", aliases=("marsh  fever", "STRASSE"))


def test_names_of_mentions_are_aliases() -> None:
    for second, mentions, first_aliases, second_aliases in (
        # The first spelling stays; an alternative id is the entity's.
        (D2, "Grippe:D1 influenza:D1 grippe:D1 sniffles:X2", "Influenza|Grippe", "sniffles"),
        # A name of several entities goes to the most frequent, then to the first.
        (D2, "Bug:D2 bug:D1 BUG:D2 virus:D2 virus:D1", "Influenza|virus", "Bug"),
        # What documents call one entity is no alias of another, but a preferred name stays.
        (NAMED, "flu:D1 Influenza:D2 cold:D1", "cold", "influenza|Rhinitis"),
        # Mentions without an entity give no name; of several ids, the first that is known counts.
        (D2, "plague:D9 ache: rash sniffles:D9,X2,D1", "Influenza", "sniffles"),
        # Case and white space make no other name.
        (SHOUTED, "Marsh\nfever:D1 marsh\tfever:D1 straße:D1 \t:D1", "Influenza|Marsh fever|straße", ""),
    ):
        parts = [one.partition(":") for one in mentions.split(" ")]
        marked = [(name, [*filter(None, ids.split(","))] if mark else None) for name, mark, ids in parts]
        named = KnowledgeBase([D1, second]).with_names_of([document("1", *marked)])
        assert ["|".join(entity.aliases) for entity in named] == [first_aliases, second_aliases]
        assert [entity.name for entity in named] == ["Flu", "Cold"]


def test_notes_are_counted_once_and_documents_without_a_known_entity_are_refused() -> None:
    kb = KnowledgeBase([D1, Entity("D3", "Ache", alternative_ids=("X2", "D1")), D2], {"something": 2})
    assert kb.with_names_of([document("1", ("grippe", ["D1"]))]).notes == kb.notes
    for documents in ([], [document("1", ("plague", ["D9"]))], [document("1", ("plague", None))]):
        with pytest.raises(DataError, match="no names to add"):
            kb.with_names_of(documents)


def test_domains_are_apart_and_abbreviations_are_written_out_as_in_linking() -> None:
    kb = KnowledgeBase([Entity("A", "flu", domain="a"), Entity("B", "flu", domain="b")])
    documents = [document(id_, ("bug", ["A", "B"]), domain=id_[0]) for id_ in ("a", "b1", "b2")]
    assert [entity.aliases for entity in kb.with_names_of(documents)] == [("bug",), ("bug",)]
    marked, kb = passage("1", "Tick borne encephalitis (TBE) is rare.", "TBE", gold=["D1"]), KnowledgeBase([D1])
    assert kb.with_names_of([marked])["D1"].aliases == ("Influenza", "Tick borne encephalitis")
    assert kb.with_names_of([marked], expand_abbreviations=False)["D1"].aliases == ("Influenza", "TBE")


def test_the_command_writes_a_knowledge_base(tmp_path: Path, run: Run) -> None:
    kb, documents, out = tmp_path / "kb.jsonl", tmp_path / "d.jsonl", tmp_path / "new" / "kb.jsonl"
    KnowledgeBase([D1, D2]).to_jsonl(kb)
    Corpus.of([document("1", ("Grippe", ["D1"]), ("flu", ["D1"]))]).to_jsonl(documents)
    command = ["kb", "edit", kb, "--add-names", documents, "--kb-format", "jsonl", "--format", "jsonl", "--out"]
    assert "names added: 1, names moved: 0" in run(*command, out).out
    assert arbo.read_knowledge_base(out)["D1"].aliases == ("Influenza", "Grippe")
    before = kb.read_bytes()
    assert ([run(*command, wrong).code for wrong in (kb, tmp_path / "kb.obo")], kb.read_bytes()) == ([2, 2], before)


def test_a_generic_name_heads_the_names_of_many_others() -> None:
    for n, name, others, generic in (
        (20, "Diseases", "{} disease", ["Diseases"]),
        (20, "disease", "Disease, {}", ["disease"]),
        (19, "disease", "{} disease", []),  # too few
        (20, "disease", "{} disease 7", []),  # not the head
        (20, "old disease", "{} old disease", []),  # more than a word
        (260, "disease", "{} disease", ["disease"]),
    ):
        heads = [Entity(f"E{row}", others.format(f"x{row}")) for row in range(n)]
        kb = KnowledgeBase([Entity("A", name), *heads, *(Entity(f"F{row}", "flu") for row in range(200))])
        assert kb.generic_names() == generic
        found = [problem for problem in problems_of(kb) if problem.kind == "generic-name"]
        assert [problem.examples[0].entities for problem in found] == ([("A",)] if generic else [])
        few = KnowledgeBase([*kb, *(Entity(f"G{row}", "flu") for row in range(4000))])  # less than 8 %
        assert few.generic_names() == []


_CELLS = st.text("ab\"'\t\n\r |=", max_size=6)
_NAMES = _CELLS.filter(str.strip)


@given(st.builds(arbo.Entity, _NAMES, _NAMES, st.lists(_CELLS, max_size=3).map(tuple), st.none() | _CELLS))
@settings(max_examples=200, deadline=None)
def test_tsv_is_read_as_it_was_or_its_losses_are_counted(entity: arbo.Entity) -> None:
    kb = KnowledgeBase([entity])
    with TemporaryDirectory() as folder:
        try:
            lost = save(kb, Path(folder, "kb.tsv"))
        except DataError:
            assert entity.id != entity.id.strip()
            return
        assert (list(arbo.read_knowledge_base(Path(folder, "kb.tsv"), "tsv")) == list(kb)) == (not lost), lost
