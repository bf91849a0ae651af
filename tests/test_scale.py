"""One job in shards and processes: the same result, whatever is killed; no finished part is made twice."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import document, files_in, linker, linking, sample_files, save_lines
from conftest import Run, Sample
from engine_builders import vectors

import arbo
from arbo.cli.inputs import JobConfig
from arbo.encoders import dual
from arbo.encoders.tower import Tower
from arbo.engine import silent
from arbo.errors import UsageError
from arbo.retrieval.groups import Search
from arbo.scale import executors
from arbo.scale.parts import MANIFEST, Part, code
from arbo.scale.work import opened, search_memory


class Shuffled(Executor):
    """Threads that begin each call a little later or earlier than asked."""

    def __init__(self) -> None:
        self._pool, self._random = ThreadPoolExecutor(3), random.Random(5)

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Future[Any]:
        """Submit a call."""
        seconds = self._random.choice([0, 0, 0.003])
        return self._pool.submit(lambda: time.sleep(seconds) or call(*args, **named))


def few(sample: Sample) -> list[arbo.Document]:
    return list(sample[0][:12])


def hashes(result: Any, folder: Path) -> dict[str, str]:
    """Save a run, and hash its tables and the arrays that it keeps."""
    result.save(folder)
    files = json.loads((folder / "manifest.json").read_text("utf-8"))["files"]
    return {name: digest for name, digest in files.items() if name.endswith(".parquet")} | {
        name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in result.arrays().items()
    }


def parts_of(folder: Path) -> dict[str, int]:
    """Return the time at which each finished part was made."""
    return {file.parent.name: file.stat().st_mtime_ns for file in sorted(folder.glob(f"[!.]*/{MANIFEST}"))}


ONE_NAME = arbo.KnowledgeBase([arbo.Entity(f"E{i}", f"marsh fever {i % 3}", ("bog fever",)) for i in range(6)])
SAME = [document(f"d{i}", "marsh fever", "bog fever", f"marsh fevers {i % 2}", "zz") for i in range(4)]
FEVERS = arbo.KnowledgeBase([arbo.Entity(f"E{i}", f"fever {i}", domain="ab"[i % 2]) for i in range(10)])
DIVIDED = [document(f"d{i}", f"fever {i}", "fevers", domain="ab"[i % 2]) for i in range(10)]


@pytest.mark.parametrize(
    ("size", "data", "settings"),
    [
        (60, None, {}),
        (7, None, {"method": "minimax"}),
        *((size, data, {"mention_threshold": None}) for size in (1, 3) for data in ((ONE_NAME, SAME), (None, SAME))),
        (2, (FEVERS, DIVIDED), {"mention_threshold": None}),
    ],
)
def test_shards_do_not_change_a_run(sample: Sample, tmp_path: Path, size: int, data: Any, settings: Any) -> None:
    kb, documents = data or (sample[1], few(sample))
    made = linker(kb, **settings)
    with opened(tmp_path / "work", shard_size=size, pool=Shuffled()) as work:
        found, expected = ((one.link if kb else one.discover)(documents) for one in (made.configured(over=work), made))
    assert hashes(found, tmp_path / "other") == hashes(expected, tmp_path / "run")


def check_growth(sample: Sample, folder: Path, **how: Any) -> None:
    """Fail unless a run with corrections, and one that grows, are the same in processes or on a cluster."""
    documents, (mention, other) = few(sample), (few(sample)[0].mentions[0], few(sample)[1].mentions[0])
    corrections = [{"mention": mention.id, "entity": None}, {"same": [other.id, mention.id]}]
    plain = linker(sample[1])
    whole = hashes(plain.link(documents, corrections), folder / "whole")
    with opened(folder / "work", shard_size=60, **how) as work:
        spread = plain.configured(over=work)
        assert hashes(spread.link(documents, corrections), folder / "spread") == whole
        before, known = spread.link(documents[:9], corrections), parts_of(work.folder)
        grown = spread.add(before, documents[9:])
        assert any(name.startswith("search") for name in parts_of(work.folder).keys() - known)
    tables = {name: digest for name, digest in whole.items() if "parquet" in name}
    assert hashes(grown, folder / "grown").items() >= tables.items()


def test_processes_do_not_change_a_run(sample: Sample, tmp_path: Path) -> None:
    check_growth(sample, tmp_path, workers=2)


def test_a_search_of_several_vectors_a_query_is_refused_and_not_divided(tmp_path: Path) -> None:
    points = vectors(np.random.default_rng(0).random((50, 4)))
    with opened(tmp_path / "work", shard_size=5) as work:
        twice = vectors(points.matrix, owner=np.arange(50) // 2)
        with pytest.raises(ValueError, match="exactly one vector"):
            list(work.search_all([Search(twice, points, None)], 3, metric="cosine", within=None, progress=silent))
    assert parts_of(tmp_path / "work") == {}


def test_a_finished_part_is_not_made_again(tmp_path: Path) -> None:
    part, arrays = Part.of(tmp_path, "search", k=3), {"ids": np.arange(3)}
    assert not part.is_finished()

    def beaten(folder: Path) -> None:  # while it is written, another process finishes it
        part.make(lambda: arrays)
        np.save(folder / "ids.npy", np.arange(4))

    part.written(beaten)
    part.make(lambda: pytest.fail("called"))
    assert part.is_finished()
    assert part.arrays()["ids"].tolist() == [0, 1, 2]
    assert Part.of(tmp_path, "search", k=4) != part


@pytest.mark.parametrize("name", ["ids.npy", MANIFEST])
def test_a_part_that_was_torn_is_made_again(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("a part waits for the disk"))
    part, arrays = Part.of(tmp_path, "search", k=3), {"ids": np.arange(300)}
    part.make(lambda: arrays)
    whole = (part.folder / name).read_bytes()
    for torn in (b"", whole[:60], whole[:-9], b"\0" * len(whole)):
        (part.folder / name).write_bytes(torn)
        assert not part.is_finished()
        part.make(lambda: arrays)
        assert part.is_finished()
        assert part.arrays()["ids"].tolist() == arrays["ids"].tolist()


def test_calls_wait_few_at_a_time() -> None:
    begun = 0

    def calls() -> Iterator[tuple[Any, ...]]:
        nonlocal begun
        for begun in range(1, 301):  # noqa: B007
            yield (abs, -1)

    results = executors.completed(None, calls())
    assert (next(results), begun, len([*results])) == (1, 1, 299)


def test_all_workers_have_calls_and_an_error_in_one_is_that_of_the_job() -> None:
    together = threading.Barrier(100, timeout=60)
    with ThreadPoolExecutor(100) as pool:
        assert len([*executors.completed(pool, [(together.wait,)] * 100)]) == 100
    with pytest.raises(ZeroDivisionError), executors.executor(2) as pool:
        list(executors.completed(pool, [(divmod, 1, 0)] * 200))


def test_a_worker_has_one_thread_if_the_script_imports_numpy(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import numpy\nfrom threadpoolctl import threadpool_info\nfrom arbo.scale.executors import executor\n"
        "if __name__ == '__main__':\n    with executor(2) as pool:\n"
        "        print([library['num_threads'] for library in pool.submit(threadpool_info).result()])\n",
        "utf-8",
    )
    command, environment = [sys.executable, tmp_path / "script.py"], os.environ | {"OMP_NUM_THREADS": "2"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert set(json.loads(told.stdout)) == {1}


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the list of processes of Linux")
@pytest.mark.parametrize("who", ["driver", "worker", "interrupted"])
def test_the_same_command_goes_on_after_a_kill(tmp_path: Path, who: str, files: Path, run: Run) -> None:
    work, job = tmp_path / "work", linking(files, "test.jsonl")
    spread = ["link", *job, "--out", tmp_path / "run", "--workers", 2]
    spread += ["--set", "shard_size=40", "--set", f"work={work}"]
    process = subprocess.Popen([sys.executable, "-m", "arbo", *map(str, spread)], stderr=subprocess.PIPE, text=True)
    while not any(name.startswith("search") for name in parts_of(work)):
        time.sleep(0.02)
    workers = children(process.pid)
    if who == "worker":
        own = [pid for pid in workers if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(own[0], signal.SIGKILL)
    else:
        process.send_signal(signal.SIGINT if who == "interrupted" else signal.SIGKILL)
    told = process.communicate()[1]
    assert process.returncode
    assert who != "worker" or "run the same command again" in told
    if who == "interrupted":
        kept = f"finished parts are kept in {work}, and the same command takes them"
        assert (process.returncode, told) == (130, f"interrupted\n{kept}\n")
    for _ in range(500):
        time.sleep(0.02 * any(map(alive, workers)))
    assert not any(map(alive, workers))
    made = parts_of(work)
    again = spread if who == "worker" else [word for word in spread if word not in ("--workers", 2)]  # or without them
    for command in (again, ["link", *job, "--out", tmp_path / "plain"]):
        assert run(*command).code == 0
    assert made.items() < parts_of(work).items()  # none is made again
    saved = [json.loads((tmp_path / run / "manifest.json").read_text("utf-8"))["files"] for run in ("plain", "run")]
    assert saved[0] == saved[1]


def test_the_folder_beside_a_run_is_removed_and_one_that_is_given_kept(tmp_path: Path, files: Path, run: Run) -> None:
    beside, given = tmp_path / "run.work", tmp_path / "work"
    job = ["discover", files / "test.jsonl", "--out", tmp_path / "run", "--set", "shard_size=200"]
    assert run(*job).code == 0
    assert not beside.exists()
    assert run(*job, "--set", f"work={beside}").code == 0
    (beside / ".arbo-partial-1").mkdir()
    (beside / ".arbo-partial-2").write_text("documents of a job that was killed", "utf-8")
    (beside / "notes").mkdir()
    assert (run(*job).code, [path.name for path in beside.iterdir()]) == (0, ["notes"])
    assert run(*job, "--set", f"work={given}").code == 0
    assert len([name for name in parts_of(given) if name.startswith("search")]) == 4


def test_a_pattern_matches_nothing_that_the_job_writes(tmp_path: Path, run: Run) -> None:
    sample_files(tmp_path)
    for pattern, out, status, words in (("t", "run", 0, ""), ("work", "other", 3, "no file matches this pattern")):
        told = run("discover", tmp_path / f"**/*{pattern}.json*", "--out", tmp_path / out, "--set", "shard_size=200")
        assert (told.code, words in told.told) == (status, True)


def test_a_failure_leaves_what_is_of_others_and_nothing_else(tmp_path: Path, run: Run) -> None:
    wrong, beside = save_lines(tmp_path / "wrong.jsonl", {}), tmp_path / "run.work"
    job = ["discover", wrong, "--out", tmp_path / "run", "--set", "shard_size=200"]
    assert (run(*job).code, [*tmp_path.iterdir()]) == (3, [wrong])
    (beside / ".arbo-partial-live").mkdir(parents=True)
    assert (run(*job).code, len([*beside.iterdir()])) == (3, 1)


def test_the_folder_is_beside_an_unnamed_run(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    with JobConfig(workers=1, shard_size=9).over(linker(None), Path()) as made:
        made.discover(few(sample))
        assert (tmp_path / "run.work").exists()


def test_a_work_folder_in_the_run_and_a_number_below_1_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1"), opened(tmp_path / "new", 0):
        pass
    before = tmp_path / "before"
    for folder in (before, before / "parts"):
        job = JobConfig(work=str(folder)).over(linker(None), tmp_path / "run", before)
        with pytest.raises(UsageError, match=r"the work folder .*before.* is in a run folder"), job:
            pass
    assert not before.exists()


def test_a_preview_writes_nothing(tmp_path: Path, files: Path, run: Run) -> None:
    how = ["--set", f"work={tmp_path / 'work'}", "--preview"]
    how += ["--corrections", save_lines(tmp_path / "corrections.jsonl")]
    run("discover", files / "test.jsonl", "--out", tmp_path / "run", *how).ok()
    assert not (tmp_path / "work").exists()


def test_a_verb_that_grows_takes_shards(tmp_path: Path, files: Path, run: Run) -> None:
    assert run("link", *linking(files, "train.jsonl"), "--out", tmp_path / "run").code == 0
    how = ["--set", "shard_size=100", "--set", f"work={tmp_path / 'work'}"]
    run("add", tmp_path / "run", files / "test.jsonl", "--out", tmp_path / "more", *how).ok()
    assert any(name.startswith("search") for name in parts_of(tmp_path / "work"))


def with_transformer(sample: Sample, tower: Tower, **config: Any) -> arbo.Linker:
    encoder = arbo.DualEncoder(tower, tower, arbo.EncoderConfig(), **config)
    return arbo.Linker(sample[1], encoder, arbo.LinkerConfig(entity_threshold=2, mention_threshold=2))


def test_shards_of_a_transformer(sample: Sample, bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual, "SLICE", 16)
    plain = with_transformer(sample, bert)
    told: list[str] = []
    documents = few(sample)
    expected = hashes(plain.link(documents), tmp_path / "plain")
    for size in (7, 500):
        with opened(tmp_path / "work", shard_size=size, pool=Shuffled(), tell=told.append) as work:
            spread = plain.configured(over=work)
            assert hashes(spread.link(documents), tmp_path / "run") == expected
    assert len({line for line in told if line.startswith("embedding")}) == 2
    grown, again = (one.add(one.link(documents[:9]), documents[9:]) for one in (plain, spread))
    assert hashes(again, tmp_path / "again") == hashes(grown, tmp_path / "grown")
    assert sum(name.startswith("embedding") for name in parts_of(tmp_path / "work")) > 4


@pytest.mark.slow
def test_processes_read_the_tower(sample: Sample, bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual, "SLICE", 32)
    plain, documents = with_transformer(sample, bert, cache=tmp_path / "cache"), few(sample)
    told: list[str] = []
    with opened(tmp_path / "work", 2) as work:
        found = plain.configured(over=work).link(documents[:8])
    expected = hashes(with_transformer(sample, bert).link(documents[:8]), tmp_path / "plain")
    assert (hashes(found, tmp_path / "spread"), len([*(tmp_path / "work").glob("tower-*")])) == (expected, 1)
    made, damaged = parts_of(tmp_path / "work"), sorted((tmp_path / "work").glob("embedding-*"))[0] / "vectors.npy"
    np.save(damaged, np.zeros(3))
    plain = with_transformer(sample, bert)
    with opened(tmp_path / "work", tell=told.append) as work:
        assert hashes(plain.configured(over=work).link(documents[:8]), tmp_path / "again") == expected
    assert {name for name, _ in made.items() ^ parts_of(tmp_path / "work").items()} == {damaged.parent.name}
    total = sum(name.startswith("embedding") for name in parts_of(tmp_path / "work"))
    assert sum([int(line.split(": ")[1].split(" of ")[0]) for line in told if "embedding" in line]) == total - 1


def test_an_index_is_made_in_parts(bert_folder: Path, files: Path, tmp_path: Path, run: Run) -> None:
    command = ["kb", "index", files / "kb.jsonl", "--encoder", bert_folder]
    for name, spread in (("alone", []), ("spread", ["--set", f"work={tmp_path / 'work'}"])):
        run(*command, "--out", tmp_path / name, "--set", f"cache={tmp_path / f'{name}.cache'}", *spread).ok()
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    assert files_in(alone) == files_in(spread)
    assert all((alone / name).read_bytes() == (spread / name).read_bytes() for name in files_in(alone))
    assert sum(name.startswith("embedding") for name in parts_of(tmp_path / "work")) == 1


class Elsewhere(Shuffled):
    """A cluster, which refuses all tasks and remembers what they ask for."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.memory, self.asked = device, 0, ("", "")

    def for_texts(self, memory: int) -> Any:
        self.memory = memory
        return self

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Any:
        """Refuse a call."""
        self.asked = call.__self__.folder.name, args[1][1]
        raise LookupError


def test_tasks_use_the_device_of_their_pool_and_parts_name_it(sample: Sample, bert: Tower, tmp_path: Path) -> None:
    asked = []
    for device in ("cuda:0", "cuda:1", "cpu"):
        pool = Elsewhere(device)
        with pytest.raises(LookupError), opened(tmp_path / "work", pool=pool) as work:
            with_transformer(sample, bert).configured(over=work).link(few(sample))
        asked.append(pool.asked)
        assert 1_000_000_000 < pool.memory < 1_010_000_000
    assert [device for _, device in asked] == ["cuda:0", "cuda:1", "cpu"]
    assert asked[0][0] == asked[1][0] != asked[2][0]
    assert search_memory(1 << 19) == 986_432_000


@pytest.mark.parametrize("library", ["numpy", "scipy", "numba", "faiss-cpu", "torch"])
def test_parts_depend_on_the_libraries_that_compute_them(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = code.__wrapped__()
    monkeypatch.setattr("arbo.scale.parts.version", lambda name: "0" if name == library else version(name))
    assert code.__wrapped__() != before
