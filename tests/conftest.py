"""What several test files use."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest
import tiny_models
from browser import Browser, needs_browser
from hypothesis import settings
from tiny_models import WORDS

if TYPE_CHECKING:
    import arbo
    from arbo.edges.model import EdgeModel
    from arbo.encoders.tower import Tower

Sample: TypeAlias = "tuple[arbo.Corpus, arbo.KnowledgeBase]"

_ROOT = Path(__file__).resolve().parent.parent
_SHARED = _ROOT.parent / "shared"
sys.path.append(str(_ROOT / "benchmarks"))

# Numba's cache on disk does not notice a change in a helper of another file: let its folder depend on all of them.
_FILES = [file for room in ("clustering", "eval") for file in sorted((_ROOT / room).glob("*.py"))]
_SOURCES = b"".join(file.read_bytes() for file in _FILES)
settings.register_profile("timeless", deadline=None)  # a busy machine must not fail a test
settings.load_profile("timeless")
os.environ.setdefault("NUMBA_CACHE_DIR", str(_ROOT / ".numba_cache" / hashlib.sha256(_SOURCES).hexdigest()[:16]))

# A thread each for processes that share the cores: threads that wait for each other took twice the time.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test asks the hub for a model.
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of the most slow tests, so that no process has a long file left when the others end."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Find a file in the folder `shared` beside the repository; without it skip, or fail in CI."""

    def find(path: str) -> Path:
        if not _SHARED.is_dir() and not os.environ.get("CI"):
            pytest.skip(f"the folder {_SHARED} is absent")
        if not (_SHARED / path).exists():
            pytest.fail(f"{_SHARED / path} is absent")
        return _SHARED / path

    return find


@pytest.fixture(scope="session")
def sample() -> Sample:
    """Load the documents and the knowledge base of the sample."""
    import arbo

    return arbo.load_sample()


@pytest.fixture(scope="session")
def result(sample: Sample) -> arbo.Result:
    """Link the sample, once for all tests, which leave it as it is."""
    import arbo

    documents, kb = sample
    return arbo.Linker(kb).link(documents)


@pytest.fixture(scope="session")
def learnt(sample: Sample) -> EdgeModel:
    """Train edges of mentions and of names on a part of the sample."""
    import arbo

    documents, kb = sample
    return arbo.train_edges(documents[:60], documents[60:], kb, names=True)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the sample as files, which no test changes; see `sample_files`."""
    from builders import sample_files

    return sample_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def roberta_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny RoBERTa with random weights: byte-level BPE, where blanks are part of words; 128 tokens fit."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import RobertaConfig, RobertaModel

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters, signs = pre_tokenizers.ByteLevel.alphabet(), ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    how = {"vocab_size": 400, "special_tokens": signs, "initial_alphabet": letters, "show_progress": False}
    trainer = trainers.BpeTrainer(**how)
    tokenizer.train_from_iterator([*WORDS.split(), WORDS] * 9, trainer)
    special = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    ids |= {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 130, **tiny_models.TINY}
    folder, config = tmp_path_factory.mktemp("roberta"), RobertaConfig(**ids)
    return tiny_models.save(folder, RobertaModel, config, tokenizer, unk_token="<unk>", **special)


@pytest.fixture(scope="session")
def bert(bert_folder: Path) -> Tower:
    return _tower(bert_folder)


@pytest.fixture(scope="session")
def roberta(roberta_folder: Path) -> Tower:
    return _tower(roberta_folder)


class Outcome(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    def ok(self) -> Outcome:
        """Return the outcome; fail with what was told if it is an error."""
        assert self.code == 0, self.err
        return self

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert isinstance(value, dict)
        return value

    @property
    def told(self) -> str:
        """What stderr says, on one line."""
        return " ".join(self.err.split())


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    from arbo.cli import main

    handler = signal.getsignal(signal.SIGINT)

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["arbo", *map(str, arguments)])
        capsys.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as done:
            code = done.code
        printed = capsys.readouterr()
        assert code is None or isinstance(code, int)
        return Outcome(code or 0, printed.out, printed.err)

    yield run
    signal.signal(signal.SIGINT, handler)


def _tower(folder: Path) -> Tower:
    import torch

    from arbo.encoders.tower import Tower

    torch.set_num_threads(1)  # more are slower on models this small
    return Tower.load(folder, device="cpu")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    needs_browser()
    with Browser() as found:
        found.look()
        yield found
