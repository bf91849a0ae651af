import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import arbo
from arbo.data.documents import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.formats import read_knowledge_base
from arbo.kb.problems import _KINDS, Problem, problems_of

FLU = Entity("D1", "flu", ("grippe",))
RAY = Entity("D3", "Ray X", alternative_ids=("X",))
ODD = Entity("D2", "cold", xrefs=("bare", ":x", "MSH: ", "MSH:1"))


def found(*entities: Entity) -> dict[str, Problem]:
    problems = problems_of(KnowledgeBase(entities))
    assert len({problem.kind for problem in problems}) == len(problems)
    return {problem.kind: problem for problem in problems}


def test_a_sound_knowledge_base_has_none() -> None:
    cold = Entity("D2", "cold", ("common cold",), "A disease.", alternative_ids=("X1",), xrefs=("MSH:D1", "UMLS:C1"))
    assert found(FLU, cold) == {}
    assert found()["empty"].severity == "error"
    assert "number" not in found(FLU, Entity("D2", "cold", ("B12", "1q21.1")))
    assert all(problem.severity == "warning" for problem in problems_of(arbo.load_sample()[1]))


@pytest.mark.parametrize(
    ("kind", "severity", "entities", "examples"),
    [
        ("unreachable", "error", [Entity("D2", "\u0301\u0301", ("\u200b\u200b",))], [(("\u0301\u0301",), ("D2",))]),
        ("padded-id", "error", [Entity(" D2", "cold")], [((" D2",), (" D2",))]),
        ("padded-id", "error", [Entity("D2", "cold", alternative_ids=("X1\t",))], [(("X1\t",), ("D2",))]),
        ("indistinguishable", "warning", [Entity("D2", "Grippe", ("Flu",))], [(("flu", "Grippe"), ("D1", "D2"))]),
        ("indistinguishable", "warning", [Entity("D2", "x ray"), RAY], [(("x ray", "Ray X"), ("D2", "D3"))]),
        ("name-is-alias", "warning", [Entity("D2", "cold", ("x ray",)), RAY], [(("x ray", "Ray X"), ("D2", "D3"))]),
        ("same-name", "warning", [Entity("D2", "Flu", ("cold",))], [(("flu", "Flu"), ("D1", "D2"))]),
        ("name-is-alias", "warning", [Entity("D2", "cold", ("flu",))], [(("flu",), ("D1", "D2"))]),
        ("shared-alias", "warning", [Entity("D2", "cold", ("Grippe",))], [(("grippe", "Grippe"), ("D1", "D2"))]),
        ("single-character", "warning", [Entity("D2", "cold", ("C", "7"))], [(("C",), ("D2",)), (("7",), ("D2",))]),
        ("number", "warning", [Entity("D2", "cold", ("12 34", "1a"))], [(("12 34",), ("D2",))]),
        ("alternative-id-taken", "warning", [Entity("D2", "cold", alternative_ids=("D1",))], [(("D1",), ("D2",))]),
        ("alternative-id-shared", "warning", [replace(RAY, id="D2", name="cold"), RAY], [(("X",), ("D2", "D3"))]),
        ("id-with-blanks", "warning", [Entity("the cold", "cold")], [(("the cold",), ("the cold",))]),
        ("xref-without-prefix", "warning", [ODD], [((xref,), ("D2",)) for xref in ODD.xrefs[:3]]),
    ],
)
def test_each_problem_is_found_alone(
    kind: str, severity: str, entities: list[Entity], examples: list[tuple[tuple[str, ...], tuple[str, ...]]]
) -> None:
    problems = found(FLU, *entities)
    assert set(problems) == {kind}
    assert problems[kind].severity == severity
    assert problems[kind].count == len(examples)
    assert list(problems[kind].examples) == examples


def test_what_readers_count_is_a_problem_unless_it_is_right(tmp_path: Path) -> None:
    flu = '[Term]\nid: D1\nname: flu\nsynonym: "" EXACT []\nsynonym: bare\nsynonym: bare\ndef: bare\n'
    (tmp_path / "kb").write_text(
        f"{flu}{flu}[Term]\nid: D2\n[Term]\nname: no id\n[Term]\nid: D3\nis_obsolete: true\nreplaced_by: D1\n"
    )
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
    told_options = {*re.findall(r"--([a-z-]+)", str(_KINDS))}
    assert told_options == {"set", "kb-xrefs"}, "other options may be gone"


def test_errors_come_first_and_examples_are_few() -> None:
    entities = [Entity(f" {i}", f"name of {i}", ("it", *(["they"] if i < 9 else []))) for i in range(5000)]
    problems = problems_of(KnowledgeBase(entities))
    assert [(p.kind, p.count) for p in problems] == [("padded-id", 5000), ("shared-alias", 2)]
    assert str(problems[1].examples[0]) == '"it":  0,  1,  2 and 4,997 more'
    assert len(json.dumps([problem.as_dict() for problem in problems])) < 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "format_", "counts"),
    [
        (
            "medic/medic_06Jul2012.txt",
            "medic",
            {"indistinguishable": 12, "name-is-alias": 338, "shared-alias": 688, "alternative-id-taken": 1},
        ),
        ("gsc_plus/hp_2013-11-30.obo.gz", "obo", {"alternative-id-taken": 1}),
    ],
)
def test_published_knowledge_bases_have_warnings_alone(
    shared: Callable[[str], Path], name: str, format_: str, counts: dict[str, int]
) -> None:
    problems = problems_of(read_knowledge_base(shared(f"data/{name}"), format_))
    assert {problem.severity for problem in problems} == {"warning"}
    assert {problem.kind: problem.count for problem in problems}.items() >= counts.items()
