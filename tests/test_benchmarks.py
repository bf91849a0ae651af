"""Benchmarks: the pages are those of the results; the protocol of BioSyn; the experiment of OSLAT."""

import json
import re
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kb_of
from hypothesis import given, settings, strategies as st

import arbo
from arbo import Corpus, Document, Entity, KnowledgeBase, Mention, load_sample
from arbo.text.words import content_words, sentences

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import report
from library import cells, results
from library.biosyn import Query, dictionary, ids_of, plain, queries, right, split, written_parts
from library.oslat.entity_split import documents_of, entity_split
from library.oslat.pairs import Pairs, pieces
from library.oslat.rule_based import rule_based
from library.oslat.scores import given_scores, linked_scores
from library.ranking import Known
from library.references import MissingReferenceError, filled

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
SUMMARY = (ROOT / "BENCHMARKS.md").read_text("utf-8")
SCRIPTS = {path.stem for path in BENCHMARKS.glob("*.py")} - {"report"}
ABOUT = {"command": "python benchmarks/speed.py", "commit": "abc", "machine": "a machine", "date": "2026-01-01"}
RESULT: results.Result = {
    **ABOUT,
    "name": "speed",
    "figures": {"job.seconds": 2.345, "n": 1000, "share": 0.5},
    "tables": {"by system": [{"system": "a", "k": 4, "f1": 0.25}, {"system": "a", "k": 8, "f1": 0.75}]},
}
KEPT = {path.stem: json.loads(path.read_text("utf-8")) for path in (BENCHMARKS / "results").glob("*.json")}


def test_the_pages_are_those_that_the_results_make_and_links_lead_somewhere() -> None:
    made = report.pages()
    assert {path for path in made if path.read_text("utf-8") != made[path]} == set(), "run benchmarks/report.py"
    assert set((BENCHMARKS / "reports").glob("*.md")) == made.keys() - {ROOT / "BENCHMARKS.md"}
    for page in (ROOT / "BENCHMARKS.md", *(BENCHMARKS / "reports").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_summary_names_every_report_and_missed_target_and_make_every_script() -> None:
    assert len(SUMMARY.splitlines()) <= 200
    assert all(f"(benchmarks/reports/{name}.md)" in SUMMARY for name in SCRIPTS)
    of_reports = [path.read_text("utf-8") for path in (BENCHMARKS / "reports").glob("*.md")]
    rows = [row for page in of_reports for row in re.findall(r"^\| (`.*)", page, re.M)]
    missed = [row.split(" | ") for row in rows if "**missed**" in row or "| not measured |" in row]
    assert missed
    for figure, value, target, *_ in missed:
        assert f"{figure} | {target} | {value} | " in SUMMARY
    lists = re.findall(r"^(?:SHORT|LONG|GPU) *:= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    named = [name for names in lists for name in names.split()]
    assert sorted(named) == sorted(SCRIPTS)


def test_the_figures_of_readme_and_scale_are_those_of_the_results() -> None:
    pages = "".join((ROOT / page).read_text("utf-8") for page in ("README.md", "docs/scale.md"))
    rows = {row for row in pages.splitlines() if re.search(r"^\| .*(`python benchmarks/|: seconds, GB |: MB )", row)}
    jobs = [f"{{scale:{verb}.N.seconds:.0f}}, {{scale:{verb}.N.peak_gb:.1f}}" for verb in ("link", "discover")]
    jobs.append("{scale:bytes moved[N].written MB:.0f}, {scale:bytes moved[N].read MB:.0f}")
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


MISSING = ["{speed:job.minutes}", "{speed}", "{speed:by system[a].f1}", "{speed:by system[a; 8].recall}"]


@pytest.mark.parametrize("reference", [*MISSING, "{speed:no table[a].f1}", "{interval speed:share of speed:m}"])
def test_a_missing_reference_is_an_error(reference: str) -> None:
    with pytest.raises(MissingReferenceError, match=re.escape(reference.strip("{}").rpartition(" of ")[2])):
        filled(reference, {"speed": RESULT})


def targets(**of_speed: dict[str, object]) -> report.Targets:
    return {"speed": {key: report.Target.from_toml(key, given) for key, given in of_speed.items()}}


def test_a_missed_target_is_told_with_its_reason() -> None:
    given = targets(n={"at_most": 10, "why": "it grew"}, share={"at_least": 0.4, "aim": 0.6}, left={"at_most": 1})
    with pytest.raises(ValueError, match="speed: left is missed or not measured"):
        report.summary("{missed}", {"speed": RESULT}, given)
    given = targets(n={"at_most": 10, "why": "it grew"}, share={"at_least": 0.4, "aim": 0.6})
    told = report.summary("{targets}\n{missed}", {"speed": RESULT}, given)
    row = "| [speed](benchmarks/reports/speed.md): `n` | ≤ 10 | 1,000 | it grew |"
    assert told == f"1 met, 1 missed, 0 not measured\n{row}"


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


def test_a_cell_keeps_its_commit_and_a_result_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    results.record("speed", {"n": 1}, cells=[{"commit": "abc"}, {"commit": "0de"}, {"commit": "abc"}])
    assert json.loads((tmp_path / "speed.json").read_text("utf-8"))["cells"] == {"abc": 2, "0de": 1}
    results.record("speed", {"n": 1})
    assert "cells" not in json.loads((tmp_path / "speed.json").read_text("utf-8"))


KB = kb_of(
    arbo.Entity("D1", "Breast Neoplasms", ("Breast cancer",), alternative_ids=("114480", "OMIM:114480")),
    arbo.Entity("D2", "Ovarian Neoplasms", ("ovarian-cancer",)),
    arbo.Entity("D3", "Familial breast cancer", ("breast, CANCER",)),
)
TEXT = "Breast and ovarian cancer (BOC) runs in families; BOC."


def document(*mentions: tuple[str, tuple[str, ...]]) -> Document:
    found = []
    for number, (text, ids) in enumerate(mentions):
        begin = TEXT.rindex(text)
        found.append(Mention(f"m{number}", "d", ((begin, begin + len(text)),), text, None, ids))
    return Document("d", TEXT, tuple(found))


@pytest.mark.parametrize(
    ("mention", "parts"),
    [
        ("breast and ovarian cancer", ["breast cancer", "ovarian cancer"]),
        ("breast, lung, or the ovarian cancer", ["breast cancer", "lung cancer", "the ovarian cancer"]),
        ("skin or head and neck cancer", ["skin cancer", "head and neck cancer"]),
        ("cancer of both the breast and the ovary", ["cancer of breast", "cancer of ovary"]),
        ("sporadic colon/lung tumours", ["sporadic colon", "sporadic lung tumours"]),
        ("hemorrhagic cystitis", ["hemorrhagic", "cystitis"]),
    ],
)
def test_composite_mentions_are_split(mention: str, parts: list[str]) -> None:
    assert split(mention, len(parts)) == parts
    assert split(mention, len(parts) + 7) == [mention]


def test_queries_have_the_parts_that_pubtator_gives(tmp_path: Path) -> None:
    asked = [("Breast and ovarian cancer", ("D1", "D2")), ("BOC", ("MESH:D1",)), ("families", ("D9",))]
    found = queries([document(*asked, ("runs", ("OMIM:114480", "D2")))], ids_of(KB))
    parts = [("breast cancer", "ovarian cancer"), ("breast and ovarian cancer",), ("runs",)]
    assert [query.parts for query in found] == parts
    assert [set(query.ids) for query in found] == [{"D1", "D2"}, {"D1"}, {"D2"}]
    given = {("d", 0, 25): ["left breast cancer", "ovary"]}
    assert queries([document(asked[0])], ids_of(KB), given)[0].parts == ("left breast cancer", "ovary")
    both = "1|t|Vision and hearing loss\n1\t0\t23\tVision and hearing loss\tDisease\tD1|D2\tvision loss|hearing loss"
    columns = "Disease\tD1|D2\tvision", "Chemical\tD1\tvision", "Disease\tD1"
    rows = [both, *(f"1\t0\t6\tVision\t{own}" for own in columns)]
    (tmp_path / "some.txt").write_text("\n".join(rows), "utf-8")
    assert written_parts(tmp_path / "some.txt", "Disease") == {("1", 0, 23): ["vision loss", "hearing loss"]}


def test_a_name_is_right_for_each_entity_that_has_it() -> None:
    annotated = queries([document(("Breast and ovarian cancer", ("D1", "D2")), ("BOC", ("D2",)))], ids_of(KB))
    names = dictionary(KB, annotated)
    assert (names["breast cancer"], names["breast cancer ovarian cancer"]) == ({"D1", "114480", "D3"}, {"D1", "D2"})
    assert plain("Ovarian-Cancer, ") in names
    query = annotated[0]
    assert right(query, [names["breast cancer"], names["ovarian cancer"]])
    assert not right(query, [names["breast cancer"], names["familial breast cancer"]])
    further = Query(query.document, query.mention, ("breast cancer",), frozenset({"D3"}))
    known = Known.of(KB, names, [*annotated, further])
    assert known.rows("breast cancer") == {0, 2}
    assert [known.most_annotated(name) for name in ("breast cancer", "breast neoplasms", "?")] == [2, 0, -1]


def corpus_of(entities: list[list[int]], spans: Any = ((0, 1),)) -> tuple[Corpus, KnowledgeBase]:
    """Texts that name entities, each in a mention, some in two."""
    kb = KnowledgeBase(Entity(f"E{i}", f"name {i}") for i in range(30))
    made = []
    for row, own in enumerate(entities):
        text = " ".join("x" * len(spans))
        mentions = (Mention(f"{row}:{i}", str(row), spans, text, gold=(f"E{e}",)) for i, e in enumerate(own + own[:1]))
        made.append(Document(str(row), "x" * 9, tuple(mentions)))
    return Corpus(made), kb


def pairs_in(corpus: Corpus) -> set[tuple[str, str]]:
    return {(m.document_id, id_) for m in corpus.mentions for id_ in m.gold or ()}


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 29), max_size=5, unique=True), min_size=5, max_size=120).filter(any))
def test_unseen_entities_and_a_tenth_of_the_others_are_tested(entities: list[list[int]]) -> None:
    corpus, kb = corpus_of(entities)
    split = entity_split(corpus, kb, seed=len(entities))
    train, test, everything = pairs_in(split.train), pairs_in(documents_of(split.test, kb)), pairs_in(corpus)
    assert (test | train, test & train) == (everything, set())
    unseen = {kb.entities[row].id for row in split.unseen.tolist()}
    frequency = Counter(e for _, e in everything)
    assert (len(unseen), {e for _, e in train}) == (round(0.1 * len(frequency)), set(frequency) - unseen)
    for e, n in frequency.items():
        assert sum(id_ == e for _, id_ in test) == (n if e in unseen else max(0, min(n // 10, n - 5)))


def test_words_of_given_entities_by_brute_force() -> None:
    documents, kb = load_sample()
    split = entity_split(pieces(documents, sentences).corpus, kb, unseen=0.5, test=0.5, least=1)
    test, seen = split.test, ~np.isin(split.test.entity, split.unseen)
    spans = rule_based([document.text for document in test.corpus], kb, test.text, test.entity)
    counts: dict[tuple[str, str], Any] = defaultdict(lambda: np.zeros(3, int))
    for i, row in enumerate(test.text.tolist()):
        words = content_words(test.corpus[row].text)
        gold, predicted = (
            {place for place, (a, b) in enumerate(words) for c, d in some if a < d and c < b}
            for some in (sum(test.mentions[i], ()), spans[i])
        )
        kind = "disjoint" if any(len(mention) > 1 for mention in test.mentions[i]) else "contiguous"
        for group in ((a, b) for a in (kind, "all") for b in ("seen" if seen[i] else "unseen", "all")):
            counts[group] += [len(gold), len(predicted), len(gold & predicted)]
    assert counts["all", "seen"].all()
    assert counts["all", "unseen"].all()
    scores = given_scores(test, spans, seen)
    assert len(scores) == 9
    assert {group: list(scored.counts[:3]) for group, scored in scores.items() if group in counts} == {
        group: count.tolist() for group, count in counts.items()
    }


class ByTable:
    """Scores as a table says."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def score(self, texts: object, kb: object, text: np.ndarray, entity: np.ndarray, announce: object) -> np.ndarray:
        return np.float32(self.table[text, entity])


@given(st.data())
def test_ranks_of_linked_entities_by_brute_force(data: st.DataObject) -> None:
    corpus, kb = corpus_of([[0, 3], [1], [], [*range(6, 14)], [*range(12, 20)]])
    apart = corpus_of([[], [], [], [], [], [2, 4, 5]], ((0, 1), (3, 4)))[0][5:]
    domains = data.draw(st.lists(st.sampled_from("vw"), min_size=36, max_size=36))
    kb = KnowledgeBase(replace(entity, domain=domain) for entity, domain in zip(kb, domains[:30], strict=True))
    corpus = Corpus(replace(d, domain=domain) for d, domain in zip([*corpus, *apart], domains[30:], strict=True))
    gold = Pairs.of(corpus, kb)
    row = st.lists(st.integers(0, 3), min_size=30, max_size=30)
    scorer = ByTable(np.array(data.draw(st.lists(row, min_size=6, max_size=6))))
    scores = linked_scores(scorer, gold, kb, gold.entity < 2)
    hits: dict[tuple[tuple[str, str], int], list[bool]] = defaultdict(list)
    for text, entity, mentions in zip(gold.text.tolist(), gold.entity.tolist(), gold.mentions, strict=True):
        others = [other for other in set(gold.entity.tolist()) if domains[other] == corpus[text].domain]
        best = sorted(others, key=lambda other, text=text: (-scorer.table[text, other], other))
        kind = "disjoint" if len(mentions[0]) > 1 else "contiguous"
        for group in ((a, b) for a in (kind, "all") for b in ("seen" if entity < 2 else "unseen", "all")):
            for k in (1, 5, 10):
                hits[group, k].append(entity in best[:k])
    assert {*scores} == {group for group, _ in hits}
    for (group, k), own in hits.items():
        assert scores[group][f"@{k}"] == pytest.approx(sum(own) / len(own))
