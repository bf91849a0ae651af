"""BENCHMARKS.md and the reports: made of the results, complete, and no number of arbo in them by hand."""

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import report
from library import cells, results
from library.references import MissingReferenceError, filled

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
SUMMARY = (ROOT / "BENCHMARKS.md").read_text("utf-8")
SCRIPTS = {path.stem for path in BENCHMARKS.glob("*.py")} - {"report"}
RESULT: results.Result = {
    "name": "speed",
    "command": "python benchmarks/speed.py",
    "commit": "abc",
    "machine": "a machine",
    "date": "2026-01-01",
    "figures": {"job.seconds": 2.345, "n": 1000, "share": 0.5},
    "tables": {"by system": [{"system": "a", "k": 4, "f1": 0.25}, {"system": "a", "k": 8, "f1": 0.75}]},
}
KEPT = {path.stem: json.loads(path.read_text("utf-8")) for path in (BENCHMARKS / "results").glob("*.json")}


# The pages that are kept


def test_the_pages_are_those_that_the_results_make() -> None:
    made = report.pages()
    assert {path for path in made if path.read_text("utf-8") != made[path]} == set(), "run benchmarks/report.py"
    assert set((BENCHMARKS / "reports").glob("*.md")) == made.keys() - {ROOT / "BENCHMARKS.md"}


def test_the_summary_is_short_and_names_every_report_and_missed_target() -> None:
    assert len(SUMMARY.splitlines()) <= 200
    assert all(f"(benchmarks/reports/{name}.md)" in SUMMARY for name in SCRIPTS)
    of_reports = [path.read_text("utf-8") for path in (BENCHMARKS / "reports").glob("*.md")]
    rows = [row for page in of_reports for row in re.findall(r"^\| (`.*)", page, re.M)]
    missed = [row.split(" | ") for row in rows if "**missed**" in row or "| not measured |" in row]
    assert missed
    for figure, value, target, *_ in missed:
        assert f"{figure} | {target} | {value} | " in SUMMARY


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "BENCHMARKS.md", *(BENCHMARKS / "reports").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_make_names_every_script() -> None:
    lists = re.findall(r"^(?:SHORT|LONG|GPU) *:= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    named = [name for names in lists for name in names.split()]
    assert sorted(named) == sorted(SCRIPTS)


def test_the_figures_of_readme_and_scale_are_those_of_the_results() -> None:
    pages = "".join((ROOT / page).read_text("utf-8") for page in ("README.md", "docs/scale.md"))
    rows = {row for row in pages.splitlines() if re.search(r"^\| .*(`python benchmarks/|: seconds, GB )", row)}
    jobs = [f"{{scale:{verb}.N.seconds:.0f}}, {{scale:{verb}.N.peak_gb:.1f}}" for verb in ("link", "discover")]
    for text in (
        "{linking:ncbi_disease.accuracy:.3f} | `python benchmarks/linking.py`",
        "{cross_encoder:ncbi_disease.accuracy:.3f} | `python benchmarks/cross_encoder.py --part medic`",
        "HDBSCAN on the same vectors: {corpora:ecbplus.minilm_context.hdbscan.ari:.3f}) "
        "| {corpora:ecbplus.minilm_context.arbo.ari:.3f} | `python benchmarks/corpora.py`",
        "hard case: {engine:unpruned.1e6.arborescence.seconds:.2f} s; "
        "SciPy's spanning tree: {engine:local.1e6.scipy.seconds:.2f} s) "
        "| {engine:local.1e6.arborescence.seconds:.2f} s | `python benchmarks/engine.py`",
        "{metrics:zipf.1e6.suite.seconds:.2f} s | `python benchmarks/metrics.py`",
        "{linking:job.seconds:.1f} s | `python benchmarks/linking.py`",
        "{scale:link.1e6.seconds:.0f} s | `python benchmarks/scale.py`",
        *(" | ".join(job.replace("N", n) for n in ("1e5", "1e6", "1e7")) for job in jobs),
    ):
        (row,) = [row for row in rows if filled(text, KEPT) in row]
        rows.remove(row)
    assert not rows


# References


@pytest.mark.parametrize(
    "reference",
    [
        "{speed:job.minutes}",
        "{speed}",
        "{speed:by system[a].f1}",
        "{speed:by system[a; 8].recall}",
        "{speed:no table[a].f1}",
        "{interval speed:share of speed:m}",
    ],
)
def test_a_missing_reference_is_an_error(reference: str) -> None:
    with pytest.raises(MissingReferenceError, match=re.escape(reference.strip("{}").rpartition(" of ")[2])):
        filled(reference, {"speed": RESULT})


# Targets


def targets(**of_speed: dict[str, object]) -> report.Targets:
    return {"speed": {key: report.Target.from_toml(key, given) for key, given in of_speed.items()}}


def test_a_missed_target_is_told_with_its_reason() -> None:
    given = targets(n={"at_most": 10, "why": "it grew"}, share={"at_least": 0.4, "aim": 0.6}, left={"at_most": 1})
    with pytest.raises(ValueError, match="speed: left is missed or not measured"):
        report.summary("{missed}", {"speed": RESULT}, given)
    given = targets(n={"at_most": 10, "why": "it grew"}, share={"at_least": 0.4, "aim": 0.6})
    told = report.summary("{targets}\n{missed}", {"speed": RESULT}, given)
    assert told.splitlines() == [
        "1 met, 1 missed, 0 not measured",
        "| [speed](benchmarks/reports/speed.md): `n` | ≤ 10 | 1,000 | it grew |",
    ]


# Cells


@pytest.mark.parametrize(
    ("made_by", "expected"),
    [
        (None, "- cells: commit not recorded; other code"),
        ({"abc": 2}, "- cells: all made by that commit"),
        ({"abc": 2, "0de": 1, results.NO_COMMIT: 1}, "- cells: 2 of 4 were made by other commits: 0de (1), commit not"),
    ],
)
def test_cells_of_other_commits_are_told(made_by: dict[str, int] | None, expected: str) -> None:
    result = RESULT if made_by is None else results.Result(**RESULT, cells=made_by)
    assert expected in report.report("speed", result, {}, "Speed.\n\n`--record` records.", "")
    assert "cells" not in report.report("speed", result, {}, "Speed.", "")


def test_a_cell_keeps_the_commit_that_made_it_and_one_of_another_recipe_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "commit", lambda: "abc")
    kept = cells.Cells("speed", lambda cell: cell["system"], tmp_path)
    kept.keep({"system": "a"}, lambda name: {"f1": 0.5})
    monkeypatch.setattr(cells, "commit", lambda: "0de")
    kept.keep({"system": "a"}, lambda name: pytest.fail("a kept cell is made again"))
    assert kept.read() == [{"commit": "abc", "system": "a", "f1": 0.5}]
    monkeypatch.setattr(cells, "RECIPE", cells.RECIPE + 1)
    assert kept.read() == []
    kept.keep({"system": "a"}, lambda name: {"f1": 0.6})
    assert kept.read() == [{"commit": "0de", "system": "a", "f1": 0.6}]


def test_a_result_counts_the_commits_of_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    results.record("speed", {"n": 1}, cells=[{"commit": "abc"}, {"commit": "0de"}, {"commit": "abc"}])
    assert json.loads((tmp_path / "speed.json").read_text("utf-8"))["cells"] == {"abc": 2, "0de": 1}
    results.record("speed", {"n": 1})
    assert "cells" not in json.loads((tmp_path / "speed.json").read_text("utf-8"))
