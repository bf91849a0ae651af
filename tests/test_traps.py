"""Links, pipes, ids and modes that could lead arbo out of the folders that the user named."""

import os
import re
import stat
import sys
import unicodedata
from pathlib import Path

import pytest
from builders import linking
from conftest import Run, Sample

import arbo
from arbo.files import check_hashes, sha256_of
from arbo.formats.brat import read_documents as read_brat, write_brat
from arbo.scale import work

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and modes of POSIX")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that looks like anything that arbo removes, and that no test may change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("part.json", "manifest.json"):
        (folder / name).write_text("{}")
    return folder


def test_removing_a_work_folder_follows_no_link(tmp_path: Path, outside: Path, sample: Sample) -> None:
    folder = tmp_path / "work"
    with work.opened(folder) as opened:
        arbo.Linker(sample[1], over=opened).link(sample[0])
    part = next(path for path in folder.iterdir() if (path / "part.json").exists())
    (folder / "linked").symlink_to(outside)
    (folder / ".arbo-partial-1").symlink_to(outside)
    (part / "inner").symlink_to(outside)
    os.utime(folder / ".arbo-partial-1", (0, 0), follow_symlinks=False)
    os.utime(outside, (0, 0))
    with work.opened(folder):
        pass
    work.remove(folder)
    assert not part.exists()
    assert len(list(outside.iterdir())) == 2


def test_a_run_that_is_a_link_is_replaced_where_it_leads(tmp_path: Path, sample: Sample) -> None:
    result = arbo.Linker(sample[1]).link(sample[0])
    result.save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    result.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert arbo.Result.load(tmp_path / "real").link_table == result.link_table
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_folder_with_a_link_in_it_is_not_replaced(tmp_path: Path, outside: Path, sample: Sample) -> None:
    result = arbo.Linker(sample[1]).link(sample[0])
    result.save(tmp_path / "run")
    (tmp_path / "run" / "more").symlink_to(outside)
    with pytest.raises(arbo.UsageError, match="would be deleted, such as more"):
        result.save(tmp_path / "run")
    assert len(list(outside.iterdir())) == 2


@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_what_is_no_file_is_never_opened(tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / "weights")
    else:
        (tmp_path / "weights").symlink_to("/dev/zero" if kind == "device" else "weights")
    with pytest.raises(arbo.DataError, match="the file is missing"):
        check_hashes(tmp_path, {"weights": "0" * 64}, "train it again")
    (tmp_path / "weights").unlink()
    (tmp_path / "blob").write_text("a")
    (tmp_path / "weights").symlink_to("blob")  # the cache of the Hugging Face hub is made of such links
    check_hashes(tmp_path, {"weights": sha256_of(tmp_path / "blob")}, "train it again")


IDS = [
    "../../a", "/tmp/a", "..", ".", "C:\\a", "a\\..\\b", "~/a", "a\nb", ".hidden", "%2e%2e%2fa", "a/b",
    "con:x", "-rf", "CON", "nul.x", "Com1", "LPT² .a", "conx", "a", "A", "%61", "\u00e9", "e\u0301",
]  # fmt: skip


def test_no_id_of_a_document_leads_out_of_the_folder(tmp_path: Path) -> None:
    documents, before = [arbo.Document(id_, "flu") for id_ in IDS], {*tmp_path.iterdir()}
    write_brat(documents, tmp_path / "out", {})
    assert {*tmp_path.iterdir()} == before | {tmp_path / "out"}
    written = list((tmp_path / "out").rglob("*"))
    assert len(written) == 2 * len(IDS) + 1  # the types
    assert all(path.is_file() and path.parent == tmp_path / "out" for path in written)
    assert not [path.name for path in written if path.name.startswith(".")]
    devices = {path.name.partition(".")[0].rstrip().upper() for path in written} & {"CON", "NUL", "COM1", "LPT²"}
    assert not devices, "names that Windows keeps for devices"
    assert len({unicodedata.normalize("NFD", path.name).lower() for path in written}) == 2 * len(IDS) + 1
    assert len(read_brat(tmp_path / "out")) == len(IDS)


def test_an_id_that_is_too_long_for_a_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(arbo.UsageError, match="File name too long"):
        write_brat([arbo.Document("a" * 300, "flu")], tmp_path / "out", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("umask", [0o077, 0o027])
def test_files_have_the_modes_of_the_umask(tmp_path: Path, files: Path, run: Run, umask: int) -> None:
    before = os.umask(umask)
    try:
        work = ["--set", f"work={tmp_path / 'work'}"]
        assert run("link", *linking(files, "test.jsonl"), "--out", tmp_path / "run", *work).code == 0
    finally:
        os.umask(before)
    made = [path for name in ("run", "work") for path in (tmp_path / name, *(tmp_path / name).rglob("*"))]
    assert len(made) > 10
    for path in made:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & umask == 0, path
        assert mode == (0o777 if path.is_dir() else 0o666) & ~umask, path


def test_each_test_that_the_threat_model_names_exists() -> None:
    root = Path(__file__).parent
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", (root.parent / "SECURITY.md").read_text("utf-8"))
    assert len(named) > 10
    for file, name in named:
        assert f"def {name}" in (root / file).read_text("utf-8"), (file, name)
