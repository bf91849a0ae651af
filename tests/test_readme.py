"""Every example of the README runs, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arbo.cli import app

README = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "RV Petrel" in printed
    assert "accuracy" in printed
    assert (tmp_path / "run" / "manifest.json").is_file()


def test_shell_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("arbo ")]
    assert len(lines) >= 6
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
        assert result.stdout, line


def test_the_explanation_shown_is_the_one_printed() -> None:
    import arbo

    documents, kb = arbo.load_sample()
    result = arbo.Linker(kb).link(documents)
    shown = re.search(r'^"sorrel.*?^```$', README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    explanation = shown[0].removesuffix("```").strip()
    assert explanation in {str(result.explain(link)) for link in result.links if link.mention.document_id == "D06"}
