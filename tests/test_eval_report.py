"""Reports say what was computed, in every format, whatever the names hold; printing computes nothing."""

import json
import math
import os
import re

import numpy as np
import pytest
from markdown_it import MarkdownIt

from eval import Comparison, Interval, Line, Report, Resampling, Summed, proportion
from eval.table import Cell, Table

HOSTILE = ["a|b", "=cmd()", "<script>alert(1)</script>", "&lt;", "*x* _y_ `z`", "[u](http://v)", "50 % $x$ #1 ~^", "\\"]


class Fixed:
    """A figure whose uncertainty is known beforehand."""

    def __init__(self, value, *, p=None, interval=(0.1, 0.9), is_defined=True, method="draws"):
        self.value, self.p, self.bounds, self.is_defined, self.words = value, p, interval, is_defined, method
        self.score, self.n_documents = value if is_defined else math.nan, 12

    def interval(self, how):
        return None if self.bounds is None else Interval(*self.bounds)

    def against(self, other, how):
        return None if self.p is None else Comparison(self.value - other.value, self.p)

    def method(self, how):
        return {"interval": f"{self.words} of intervals", "test": f"{self.words} of tests"}


class Forbidden(Fixed):
    """A figure whose uncertainty nobody may ask for."""

    def interval(self, how):
        raise AssertionError

    against = method = interval


def cells(text):
    """Columns are parted by two blanks at least."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_one_system_is_shown_with_recall_precision_and_interval():
    accuracy = Line("accuracy", Fixed(-0.00001, interval=(-0.25, 1 / 3)))
    lines = [Line("F", Fixed(0.5), Fixed(0.25), Fixed(1.0), over="3 of 4"), accuracy]
    report = Report.of({"ours": lines}, title="Title", how=Resampling(level=0.9, seed=7))
    assert str(report).splitlines() == [
        "Title",
        "",
        "          recall  precision   score       90% interval  over",
        "F         0.2500     1.0000  0.5000   [0.1000, 0.9000]  3 of 4",
        "accuracy                     0.0000  [-0.2500, 0.3333]",
        "",
        "90% interval: draws of intervals, seed 7",
    ]


def test_what_has_no_meaning_is_a_dash_and_counts_as_zero():
    report = Report.of({"ours": [Line.of_counts("MUC", [[0, 0, 0, 2], [0, 0, 0, 1]])]})
    assert report.table.rows == [("MUC", "-", "0.0000", "-")]  # nothing is annotated
    assert "-: nothing to divide by (0/0)" in report.table.notes()
    entry = report.systems["ours"]["MUC"]
    assert (entry.score.value, entry.as_dict()["recall"], entry.as_dict()["score"]) == (0.0, None, None)
    found = Report.of({"ours": [Line.of_counts("MUC", [[0, 2, 0, 0], [0, 1, 0, 0]])]}, how=None)
    assert found.table.rows == [("MUC", "0.0000", "-", "0.0000")]
    undefined = Report.of({"ours": [Line.of_counts("MUC", [[0, 0, 0, 0], [0, 0, 0, 0]])]})
    assert undefined.table.rows == [("MUC", "-", "-", "-")]
    assert undefined.to_csv().splitlines()[1].startswith("ours,MUC,,,,")
    recall_alone = [Line("MUC", Fixed(0.5), Fixed(0.0, is_defined=False))]
    assert "-: nothing" in str(Report.of({"ours": recall_alone}))
    assert "-: nothing" not in str(Report.of({"ours": recall_alone, "theirs": recall_alone}))  # scores alone are shown


def test_without_resampling_nothing_is_resampled_nor_printing_works(tmp_path):
    lines = [Line("accuracy", Forbidden(0.5))]
    report = Report.of({"one": lines, "other": lines}, how=None)
    assert report.table.rows == [("accuracy", "0.5000", "0.5000")]
    assert report.table.notes() == []
    assert report.as_dict()["resampling"] is None
    figure = Fixed(0.5, p=0.001)
    report = Report.of({"a": [Line("F", figure)], "b": [Line("F", figure)]})
    figure.__class__ = Forbidden
    assert "0.5000**" in str(report) + report.to_markdown() + report.to_latex() + json.dumps(report.as_dict())
    report.save(tmp_path / "report.json")


@pytest.fixture
def three():
    return {
        "first": [Line("MUC", Fixed(0.5)), Line("LEA", Fixed(0.25)), Line("ARI", Fixed(0.5))],
        "second": [Line("MUC", Fixed(0.75, p=0.0099)), Line("ARI", Fixed(0.500001, p=0.01))],
        "third": [Line("new", Fixed(0.125)), Line("MUC", Fixed(0.625, p=0.05)), Line("LEA", Fixed(0.25, p=0.049))],
    }


def test_several_systems_stand_side_by_side(three):
    assert str(Report.of(three, title="All")).splitlines() == [
        "All",
        "",
        "      first     second    third",
        "MUC  0.5000  >0.7500**  0.6250",
        "LEA  0.2500        -    0.2500*",
        "ARI  0.5000   0.5000*        -",
        "new       -        -    0.1250",
        "",
        "> the best of its line",
        "* p < 0.05, ** p < 0.01 against first: two-sided, not corrected for multiple comparisons",
        "p-value: draws of tests, seed 0",
    ]


@pytest.mark.parametrize("n_documents", [2, 5, 6])
def test_too_few_documents_for_a_star_are_told(n_documents):
    """Told where even the system that is right everywhere gets no star against the one that never is."""
    right, wrong = (Line("F", Summed(np.full((n_documents, 2), (value, 1)), proportion)) for value in (1, 0))
    report = Report.of({"wrong": [wrong], "right": [right]})
    ((_, _, shown),) = report.table.rows
    assert ("*" in shown) == (n_documents >= 6)
    told = f"p-value: all 2^{n_documents} exchanges of {n_documents} documents, too few for p < 0.05, seed 0"
    assert (told in report.table.notes()) == (n_documents < 6)


def test_what_cannot_be_compared_is_named():
    short, long = (Line("F", Summed(np.ones((n, 2)), proportion)) for n in (3, 4))
    with pytest.raises(ValueError, match=r"'F' of 'b' cannot be compared with that of 'a': counts has shape \(4, 2\)"):
        Report.of({"a": [short], "b": [long]})


def test_json_says_all():
    report = Report.of({"a": [Line("F", Fixed(0.5), over="3 of 4")], "b": [Line("F", Fixed(0.75, p=0.5))]}, title="T")
    saved = report.as_dict()
    assert saved["title"] == "T"
    expected = {"n_resamples": 1000, "n_permutations": 10_000, "n_half_samples": 500, "level": 0.95, "seed": 0}
    assert saved["resampling"] == expected
    own = saved["systems"]["a"]["F"]
    assert own["method"] == {"interval": "draws of intervals", "test": "draws of tests"}
    assert (own["score"], own["interval"], own["against_first"], own["documents"]) == (0.5, [0.1, 0.9], None, 12)
    assert saved["systems"]["b"]["F"]["against_first"] == {"difference": 0.25, "p_value": 0.5}


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_names_as_they_are(name):
    table = Table(name, (name, name), (False, True), [(Cell(name), Cell("0.5", True, "**"))], [name])
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(table.to_markdown())
    shown = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"<strong>{shown}</strong>" in html
    assert html.count(f">{shown}</td>") == 1
    assert html.count(f">{shown}</th>") == 2
    assert f"<li>{shown}</li>" in html
    assert "<strong>0.5</strong>**</td>" in html


@pytest.mark.parametrize("name", HOSTILE)
def test_latex_has_no_special_character_of_a_name(name):
    table = Table(name, ("", name), (False, True), [(Cell(name), Cell(name))], [name])
    latex = table.to_latex()
    inner = [latex.split("\\caption{")[1].split("}\n")[0], *re.findall(r"\\par\{\\footnotesize (.*)\\par\}\n", latex)]
    assert len(inner) == 2  # a paragraph in small type ends inside its group, or its lines keep the usual distance
    for text in inner:
        left = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#_%]|\{[\[\]*]\}", "", text)
        assert not set(left) & set('\\{}$&#_%~^<>|*[]"'), text
    body = latex.split("\\midrule\n")[1].split("\n\\bottomrule")[0]
    assert body == f"{inner[0]} & {inner[0]} \\\\"


def test_names_steer_no_terminal_and_break_no_line():
    report = Report.of({"a\n\x1b[2Jb\u202e": [Line("x\ty\ud800", Fixed(0.5), over="o\r\nv")]})
    for text in (str(report), report.to_markdown(), report.to_latex()):
        assert all(char.isprintable() or char == "\n" for char in text)
        text.encode()
    assert report.table.rows[0][0] == "x y\\ud800"
    assert str(report).splitlines()[0] == "a \\x1b[2Jb\\u202e"
    several = Report.of({"a\x1b": [], "b": []})
    assert several.table.header == ("", "a\\x1b", "b")


@pytest.mark.parametrize("suffix", [".json", ".md", ".tex", ".txt", ".JSON"])
def test_saved_by_suffix(tmp_path, three, suffix):
    report = Report.of(three, title="ünï \ud800")
    path = tmp_path / f"the report{suffix}"
    path.write_text("old")
    report.save(path)
    texts = {".md": report.to_markdown(), ".tex": report.to_latex(), ".txt": str(report)}
    if suffix in texts:
        assert path.read_text("utf-8") == texts[suffix] + "\n"
    else:
        assert json.loads(path.read_text("utf-8")) == report.as_dict()
    assert os.listdir(tmp_path) == [path.name]
