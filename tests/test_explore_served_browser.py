"""The served page in a browser: its views, its review by keys, and names that mean harm."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from browser import Browser
from builders import document, linker, passage
from conftest import Run, Sample
from test_explore_report_browser import MARKS
from test_explore_served import lines_of

import arbo
from arbo.explore.report import report

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.slow


@contextmanager
def served(run: Path, *options: object) -> Iterator[str]:
    """Serve a run in a process of its own; yield the address, and end the process."""
    command = [sys.executable, "-m", "arbo", "explore", str(run), "--json", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            printed = "".join(takewhile(lambda line: line not in ("}\n", ""), iter(process.stdout.readline, None)))
            yield json.loads(f"{printed}}}")["address"]
        finally:
            process.terminate()
            log = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    assert "stopped" in log
    assert "Traceback" not in log


def open_page(browser: Browser, address: str) -> None:
    browser.requests.clear()
    browser.messages.clear()
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=address)
    browser.until("document.querySelector('#main[data-ready]') !== null")


def drawn(browser: Browser) -> None:
    """Wait until the rows of a list are there."""
    browser.until("!document.querySelector('.list') || document.querySelector('.item a') !== null")
    browser.until("[...document.querySelectorAll('.item')].every(one => one.innerText)")


@pytest.fixture(scope="module")
def files(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample's run, its knowledge base, and its page as a file."""
    folder = tmp_path_factory.mktemp("served")
    sample[1].to_jsonl(folder / "kb.jsonl")
    result = arbo.Linker(arbo.read_knowledge_base(folder / "kb.jsonl")).link(sample[0])
    result.save(folder / "run")
    report(result, folder / "run.html", name="run")
    return folder


@pytest.fixture(scope="module")
def address(files: Path) -> Iterator[str]:
    """Serve the sample's run."""
    with served(files / "run") as address:
        yield address


def test_the_views_are_those_of_the_file(browser: Browser, files: Path, address: str) -> None:
    """Besides the review and its links; a page without the token says so."""
    views = ["#/", "#/clusters/name", "#/nil", "#/nil/nearness", "#/mentions/nil/doubt", "#/documents"]
    views += ["#/document/D06", "#/search/fenn", "#/cluster/new-D05-4", "#/mention/D06-3", "#/threshold/0.6/0.2"]
    wanted = {}
    browser.open(files / "run.html")
    for view in views:
        browser.go(view)
        drawn(browser)
        if "threshold" in view:
            browser.run("new Promise(done => setTimeout(done, 300))")  # a slider rests
        wanted[view] = browser.text("#main .view")
    browser.navigate(address.partition("#")[0])
    told = browser.until("document.querySelector('[role=alert]')?.innerText")
    assert "open the address that `arbo explore` printed" in told
    open_page(browser, address)
    assert browser.run("location.href") == address.partition("#")[0]
    for view, text in wanted.items():
        browser.go(view)
        drawn(browser)
        now = "document.querySelector('.correct')?.remove(), document.querySelector('#main .view').innerText"
        browser.until(f"({now}) === {json.dumps(text)}")
    browser.go("#/mention/nobody")
    assert "no mention “nobody”" in browser.text()
    assert all(one.startswith((address.partition("#")[0], "data:", "about:")) for one in browser.requests)
    assert browser.run("document.cookie + Object.keys(localStorage)").find(address.partition("token=")[2]) < 0


KEYS = "a 2 n u 1 a e:new-name s =:nobody =:D01-1 !:D02-1 d a a n u 1 a 2 /:petrel 1 a a n 1 a s d a a n"


def pressed(browser: Browser) -> None:
    """Press the keys, and wait for each answer."""
    for step in KEYS.split():
        key, _, words = step.partition(":")
        before = browser.run("document.querySelector('.status').dataset.answers")
        browser.press(key)
        if words:
            field = ".find input" if key == "/" else "#words"
            browser.until(f"document.activeElement === document.querySelector('{field}')")
            browser.run(f"document.querySelector('{field}').value = {json.dumps(words)}")
            browser.press("Enter")
        browser.until(f"document.querySelector('.status').dataset.answers !== {json.dumps(before)}")
        if words == "nobody":
            assert "no other mention has the id nobody" in browser.text(".status")
            browser.press("Escape")
    held = {"key": "n", "text": "n", "windowsVirtualKeyCode": ord("N"), "autoRepeat": True}
    browser.call("Input.dispatchKeyEvent", type="keyDown", **held)  # answers nothing


def test_keys_write_what_the_verb_writes_and_apply_shows_what_changes(
    browser: Browser, files: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "page.jsonl", tmp_path / "verb.jsonl"
    options = ("--corrections", file, "--author", "ann", "--kb", files / "kb.jsonl")
    with served(files / "run", *options) as address:
        open_page(browser, address)
        browser.go("#/review")
        assert "other mentions of this name will follow" in browser.text(".spread")
        pressed(browser)
        browser.run("document.querySelector('.apply').click()")
        browser.until("document.querySelector('.view[data-view=changes]') !== null")
        assert "clusters changed since run;" in browser.text()
        browser.go("#/mention/D05-4")
        browser.until("document.querySelector('.badge') !== null")
        browser.go("#/entity/SP%3A0001")
        assert arbo.read_knowledge_base(files / "kb.jsonl")["SP:0001"].definition in browser.text()
        assert not [one for one in browser.messages if "status of 400" not in one]
    steps = (step.partition(":") for step in KEYS.split())
    typed = "".join(key + f"{words}\n" * bool(words) for key, _, words in steps)
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    run("review", files / "run", "--corrections", other, "--author", "ann", "--kb", files / "kb.jsonl").ok()
    assert len(lines_of(file)) >= 20
    assert lines_of(file) == lines_of(other)
    linked, added = files / "run-reviewed", tmp_path / "run2"
    assert run("add", files / "run", "--corrections", other, "--out", added).code == 0
    assert arbo.Result.load(linked).link_table == arbo.Result.load(added).link_table


def test_names_of_changes_reasons_and_errors_are_text(browser: Browser, tmp_path: Path) -> None:
    """Also the names of runs and files, the authors and reasons of corrections, types, and words of the user."""
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", name, (name,), name, (name,)) for i, name in enumerate(MARKS)])
    documents = [document(f"{name} doc", name, f"new {name}") for name in MARKS]
    before = linker(kb).link(documents)
    folder = tmp_path / "<img src=x onerror='window.harm=1'>"
    before.save(folder)
    ids = before.mention_table["mention_id"].to_pylist()
    lines = [{"mention": ids[0], "entity": None}, {"mention": ids[1], "new": MARKS[0]}, {"same": [ids[1], ids[3]]}]
    lines = [line | {"note": name, "author": name} for line, name in zip(lines, MARKS, strict=False)]
    file = tmp_path / "corrections.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    after = linker(kb).link(documents, corrections=file)
    after.save(tmp_path / "after")
    harmless = "window.harm ?? document.querySelectorAll('main :is(img, script, iframe, b), svg[onload]').length"
    with served(tmp_path / "after", "--before", folder, "--author", MARKS[0]) as address:
        open_page(browser, address)
        views = ["#/", "#/clusters", "#/changes", "#/review", f"#/mention/{ids[0]}", "#/search/%3Cimg%20src=x%3E"]
        for view in [*views, "#/mention/%3Cimg%20src%3Dx%20onerror%3D'window.harm%3D1'%3E", "#/%3Csvg%3E/%00/x"]:
            browser.go(view)
            browser.run("new Promise(done => setTimeout(done, 100))")
            assert browser.run(harmless) == 0, view
            assert ("clusters changed since" in browser.text()) == (view == "#/changes"), view


SELECTED = """(() => {
  const walker = document.createTreeWalker(document.querySelector('.text'), NodeFilter.SHOW_TEXT), ends = [];
  for (let at = 0, node; (node = walker.nextNode()); at += node.length)
    for (const offset of [%d, %d]) if (at <= offset && offset <= at + node.length) ends[offset] = [node, offset - at];
  getSelection().setBaseAndExtent(...ends[%d], ...ends[%d]);
})()"""
FOCUSED = "document.querySelectorAll('.text [data-mention]')[%d].focus()"


def test_mentions_are_marked_in_the_text(browser: Browser, tmp_path: Path) -> None:
    """Added, resized, split and dropped, by selecting or by keys; a mark that is taken back leaves no line."""
    kinds = {"m": "add", "r": "resize", "p": "split", "d": "drop", "u": "undo"}
    text = "Breast and ovarian cancers, \U0001f9ec or tumour of the colon"
    arbo.Linker().discover([passage("d", text, "ovarian cancers", "tumour", "colon")]).save(tmp_path / "run")
    file = tmp_path / "c.jsonl"

    def select(words: str) -> None:
        browser.run("document.activeElement.blur()")  # as a press of the mouse does
        start = len(text[: text.index(words)].encode("utf-16-le")) // 2
        browser.run(SELECTED % ((start, start + len(words.encode("utf-16-le")) // 2) * 2))

    def press(key: str) -> None:
        browser.until(f"!document.querySelector('[data-mark={kinds[key]}]').disabled")
        before = browser.run("document.querySelector('#main').dataset.ready")
        browser.press(key)
        browser.until(f"document.querySelector('#main').dataset.ready !== {before!r}")

    with served(tmp_path / "run", "--corrections", file) as address:
        open_page(browser, address)
        browser.go("#/document/d")
        browser.run(FOCUSED % 1)
        for key in "]]]":  # of the colon
            browser.press(key)
        press("r")
        assert browser.text(".status") == "“tumour” is now “tumour of the colon”."
        browser.until("document.activeElement.closest('.text [data-mention]')?.innerText === 'tumour of the '")
        select("Breast")
        press("m")
        select("or")
        press("m")
        press("u")
        select("ovarian")
        press("p")
        browser.run(FOCUSED % 4)
        press("d")
        assert [one["spans"] for one in lines_of(file)] == [[[33, 39]], [[0, 6]], [[11, 26]], [[47, 52]]]
        browser.go("#/review")
        browser.run("document.querySelector('.apply').click()")
        browser.until("document.querySelector('.view[data-view=changes]') !== null")
        browser.go("#/document/d")
        browser.until("document.querySelector('.hit') !== null")
    names = arbo.Result.load(tmp_path / "run-reviewed").mention_table["text"].to_pylist()
    assert sorted(names) == ["Breast", "cancers", "ovarian", "tumour of the colon"]
    assert not [one for one in browser.messages if "status of 400" not in one]
