"""Files and arguments for tests of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import arbo
from arbo.data.corpus import Corpus


def sample_files(folder: Path) -> Path:
    """Write the sample: all documents, the halves `train` and `test`, and the knowledge base."""
    documents, kb = arbo.load_sample()
    Corpus.of(documents).to_jsonl(folder / "all.jsonl")
    Corpus.of(documents[:45]).to_jsonl(folder / "train.jsonl")
    Corpus.of(documents[45:]).to_jsonl(folder / "test.jsonl")
    kb.to_jsonl(folder / "kb.jsonl")
    return folder


def linking(folder: Path, *, docs: str = "all.jsonl") -> list[object]:
    """Arguments that name documents and the knowledge base of `sample_files`."""
    return [folder / docs, "--format", "jsonl", "--kb", folder / "kb.jsonl", "--kb-format", "jsonl"]


def arbo_process(*arguments: object, stdin: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "arbo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, stdin=stdin)
