"""Types of mentions are mapped to types of entities: nothing else is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

import arbo

KB = arbo.KnowledgeBase([
    arbo.Entity("D", "flu", types=("disease",)),
    arbo.Entity("C", "flu", types=("other", "drug", "disease")),
    arbo.Entity("X", "flu"),
])  # fmt: skip
TYPES = ("Chemical", "Disease", None)
DOCUMENT = {
    "id": "d",
    "text": "flu flu flu",
    "mentions": [
        {"id": str(type_), "spans": [[4 * at, 4 * at + 3]], "type": type_, "entities": ["D"]}
        for at, type_ in enumerate(TYPES)
    ],
}
BOTH = "Chemical=drug,Disease=disease"


@pytest.mark.parametrize("method", ["arborescence", "minimax", "undirected", "independent"])
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
    gold = result.mention_table["gold_entities"].to_pylist()
    assert gold == [["D"]] * 3  # a map of the linker does not change what is right


def test_mentions_of_other_types_are_never_in_one_cluster() -> None:
    for map_types, clusters in ((None, 1), ("Chemical=drug", 2), (BOTH, 3)):
        config = arbo.LinkerConfig(map_types=map_types)
        assert len(arbo.Linker(config=config).discover([DOCUMENT]).clusters) == clusters
    (told,) = arbo.Linker(config=arbo.LinkerConfig(map_types="Disease=disease")).discover([DOCUMENT]).warnings
    assert told.startswith("2 of 3 mentions have no mapped type (empty, Chemical): they are compared only with each")
    worlds = [{**DOCUMENT, "id": name, "domain": name} for name in "ab"]
    for place, document in enumerate(worlds):
        document["mentions"] = [{"spans": [[place, 3]], "type": "Disease"}]  # type: ignore[assignment]
    assert len(arbo.Linker(config=arbo.LinkerConfig(map_types=BOTH)).discover(worlds).clusters) == 2


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ("Chem=drug", "no mention has the type Chem; mention types found: Chemical, Disease$"),
        ("Chemical=drugs,Disease=disease", "no entity has the type drugs; entity types found: disease, drug, other$"),
        *((bad, "must be like 'Chemical=drug,Disease=disease'") for bad in ("Chemical", "", "a=", "a=b=c", "a=b,")),
        (5, "must be a string or None, not 5"),
    ],
)
def test_a_map_that_cannot_be_meant(types: Any, problem: str) -> None:
    with pytest.raises(arbo.UsageError, match=f"map_types:? {problem}"):
        arbo.Linker(KB, config=arbo.LinkerConfig(map_types=types)).link([DOCUMENT])


def test_a_map_on_the_command_line(run: Run, tmp_path: Path) -> None:
    KB.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "docs.jsonl").write_text(json.dumps(DOCUMENT))
    inputs = [tmp_path / "docs.jsonl", "--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    mapped = ["--map-types", BOTH]
    assert run("tune", *inputs, *mapped, "--out", tmp_path / "tuned.json").code == 0
    for options in (mapped, ["--config", tmp_path / "tuned.json"]):
        assert run("link", *inputs, *options, "--out", tmp_path / "run").code == 0
        result = arbo.Result.load(tmp_path / "run")
        assert result.manifest["config"]["map_types"] == BOTH
    assert "map_types must be like" in run("link", *inputs, "--map-types", "drug", "--out", tmp_path / "run").err


def test_generic_names_are_left_out(run: Run, tmp_path: Path) -> None:
    heads = [arbo.Entity(f"E{row}", f"x{row} flu") for row in range(20)]
    arbo.KnowledgeBase([arbo.Entity("D", "Flu"), *heads]).to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "docs.jsonl").write_text(json.dumps(DOCUMENT))
    inputs = [tmp_path / "docs.jsonl", "--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    assert run("link", *inputs, "--out", tmp_path / "run", "--json").json["linked"] == 3
    without = run("link", *inputs, "--out", tmp_path / "run", "--no-generic-names", "--json")
    assert (without.json["linked"], without.json["nil"]) == (0, 3)
    assert "kb.jsonl: left out 1 generic names: Flu" in without.err
    assert run("spans", *inputs, "--no-generic-names", "--json").json["mentions"] == 0
    assert run("spans", *inputs, "--json").json["mentions"] == 3
