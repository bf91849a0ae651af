"""The same questions asked of every format: good files, encodings, places of errors, skipping, duplicates, guessing."""

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from builders import save_lines
from format_files import DOCUMENTS, ENTITIES, FOLDERS, filled, save, zipped

import arbo
from arbo import formats
from arbo.errors import DataError, UsageError
from arbo.formats import DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS, WRITERS, read_documents, read_knowledge_base, writer

ALL = [("documents", name) for name in DOCUMENTS] + [("entities", name) for name in ENTITIES]
GOLDEN = Path(__file__).with_name("format_contents.txt").read_text("utf-8")
CONTENTS = dict(re.findall(r"^# (.+)\n((?:[^#].*\n)+)", GOLDEN, re.M))
"""What the good file of each format has: documents and entities, their mentions, and what was counted."""
WHOLE = {"bioc", "bioc xml", "ecbplus", "obographs", "text", "csv", "tsv"}
"""Formats whose files are read as a whole, not line by line."""


def files_of(kind: str, name: str) -> dict[str, str]:
    return (DOCUMENTS if kind == "documents" else ENTITIES)[name]


def read(kind: str, path: Any, name: str | None = None, **options: Any) -> Any:
    """Read documents or entities; `name` may have the form of the file behind it, as in `bioc xml`."""
    return (read_documents if kind == "documents" else read_knowledge_base)(path, name and name.split()[0], **options)


def shown(items: Any) -> str:
    """Show everything of documents or entities, an item a line, and what was counted."""
    notes = [f"{count} {note}" for note, count in sorted(items.notes.items()) if count]
    return "\n".join(line.rstrip() for one in items for line in (*lines_of(one), *notes * (one == [*items][-1])))


def lines_of(one: Any) -> list[str]:
    further = [f"    {key} = {value!r}" for key, value in one.metadata.items() if key != "passages"]
    further += [f"    {place}" for place in one.metadata.get("passages", ())]
    if isinstance(one, arbo.Entity):
        facts = (one.aliases, one.definition), (one.types, one.alternative_ids, one.xrefs)
        shown_facts = [" ".join(map(repr, row)) for row in facts if any(row)]
        return [f"{one.id} {one.name!r} {one.domain or ''}", *(f"    {row}" for row in shown_facts), *further]
    lines = [f"{one.id} {one.text!r} {one.domain or ''}", *further]
    for m in one.mentions:
        more = "".join(f" {value}" for value in (m.cluster, m.score, dict(m.metadata)) if value)
        spans = ",".join(f"{start}-{end}" for start, end in m.spans)
        gold = "-" if m.gold is None else " + ".join(m.gold) or "NIL"
        lines.append(f"  {m.id} {spans} {m.type} {gold}{more}")
    return lines


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_a_good_file_is_recognised_and_read(tmp_path: Path, kind: str, name: str) -> None:
    path = save(tmp_path, name, files_of(kind, name))
    guessed: list[str] = []
    items = read(kind, path, announce_format=guessed.append)
    assert (guessed, shown(items)) == ([name.split()[0]], CONTENTS[f"{kind} {name}"].rstrip())
    assert shown(read(kind, str(path), name.upper())) == shown(items)


@pytest.mark.parametrize(("kind", "name"), ALL)
@pytest.mark.parametrize("how", ["gzip", "mark", "line ends", "UTF-16"])
def test_encodings_and_line_ends_change_nothing(tmp_path: Path, kind: str, name: str, how: str) -> None:
    files = files_of(kind, name)
    expected = shown(read(kind, save(tmp_path / "plain", name, files), name))
    if how == "line ends" and name in ("text", "bioc xml"):
        pytest.skip("these line ends are part of the text")

    def change(file: str, text: str) -> bytes:
        if how == "gzip":
            return zipped(file, text)
        if how == "line ends":
            return (text if file == "d.txt" else text.replace("\n", "\r\n")).encode()
        return ("\ufeff" + text).encode("utf-8" if how == "mark" else "utf-16-le")

    path = save(tmp_path / "other", name, files, change)
    if how == "UTF-16" and name in ("brat", "bioc xml"):
        return  # offsets of BRAT are of a text in UTF-8, and XML says its encoding
    assert shown(read(kind, path, name)) == expected
    guessed: list[str] = []
    read(kind, path, announce_format=guessed.append)
    assert guessed == [name.split()[0]]


@pytest.mark.parametrize(("kind", "name"), ALL)
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: gzip.compress(raw, mtime=0)[:-9], "is truncated; download it again"),
        (lambda raw: b"\x1f\x8bplain text", "the gzip file is damaged"),
        (lambda raw: raw + b"\xe9", "not UTF-8"),
        (lambda raw: b"PK\3\4" + raw, "a zip archive or a spreadsheet; unpack it, or save the sheet as CSV"),
    ],
)
def test_a_damaged_file_is_never_skipped(tmp_path: Path, kind: str, name: str, damage: Any, words: str) -> None:
    files = {file: filled(text).encode() for file, text in files_of(kind, name).items()}
    for broken, raw in files.items():
        folder = tmp_path / broken.replace("/", "_")
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(damage(raw) if file == broken else content)
        path = folder if name in FOLDERS else folder / next(iter(files))
        if name == "text":  # a file is a document, which is skipped
            words = "no documents in the format text"
        with pytest.raises(DataError, match=words) as caught:
            read(kind, path, name, on_error="skip")
        assert Path(str(caught.value.file)) == folder / broken


@pytest.mark.parametrize(("kind", "name"), ALL)
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_items_is_an_error(tmp_path: Path, kind: str, name: str, content: str) -> None:
    if name in ("text", "brat"):
        pytest.skip("an empty text is a document")
    path = save(tmp_path, name, dict.fromkeys(files_of(kind, name), content))
    option = "format" if kind == "documents" else "kb-format"
    words = rf"no {kind} in the format {name.split()[0]}.*; check the file and the format \(--{option}\)|no \[Term\]"
    with pytest.raises(DataError, match=rf"{words}|the file is empty|not JSON|not XML"):
        read(kind, path, name)
    if name not in FOLDERS:
        with pytest.raises(DataError, match=r"the file is empty|the format cannot be guessed|no documents in"):
            read(kind, save(tmp_path, name, {"some.dat": content}))


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_a_folder_has_the_files_of_a_format_and_equal_items_are_one(tmp_path: Path, kind: str, name: str) -> None:
    if name in FOLDERS or name == "text" or "csv" in name or "tsv" in name:
        pytest.skip("the format has folders of its own, or a file is a document, or several tables are one")
    file, text = next(iter(files_of(kind, name).items()))
    path = save(tmp_path, name, {file: text, "sub/x": "", "notes.other": "", ".hidden": ""})
    once = read(kind, path, name)
    folder, twice = read(kind, tmp_path, name), read(kind, [path, path], name)
    assert [*folder] == [*twice] == [*once]
    assert folder.notes == {**once.notes, "entries of folders left out: notes.other, sub": 2}
    assert twice.notes[f"duplicate {kind} dropped"] == len(once)


def test_metadata_of_a_document_that_are_replaced_are_counted(tmp_path: Path) -> None:
    rows = save_lines(tmp_path / "docs.csv", "document_id,text,year,owner", "d,flu,1,", "d,,2,us", "d,,2,us")
    corpus = read_documents(rows)
    assert corpus.notes == {"values of a document's metadata replaced by a later row": 1}
    assert corpus[0].metadata == {"year": "2", "owner": "us"}


def test_several_inputs_and_patterns_are_one_corpus(tmp_path: Path) -> None:
    for number, extra in enumerate(("", '{"id": "0", "text": "cold"}', '{"id": "3", "text": "flu"}\nbroken')):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"id": "{number}", "text": "flu"}}\n{extra}\n')
    pattern = tmp_path / "[01]*.jsonl"
    with pytest.raises(DataError, match=r"1\.jsonl, line 2, '0': this id is already taken, .* \(.*0\.jsonl, line 1\)"):
        read_documents(pattern)
    corpus = read_documents([pattern, tmp_path / "0.jsonl", str(tmp_path / "2.jsonl")], on_error="skip")
    assert [document.id for document in corpus] == ["0", "1", "2", "3"]
    assert corpus.notes == {"malformed documents skipped": 2, "duplicate documents dropped": 1}
    (tmp_path / "kb [1].tsv").write_text("D1\tflu\nD2\tcold")
    (tmp_path / "kb2.tsv").write_text("D2\tcold\nD3\tplague")
    assert [entity.id for entity in read_knowledge_base([tmp_path / "kb [1].tsv"])] == ["D1", "D2"]
    kb = read_knowledge_base(tmp_path / "kb*.tsv")
    assert ([entity.id for entity in kb], kb.notes) == (["D1", "D2", "D3"], {"duplicate entities dropped": 1})
    with pytest.raises(DataError, match=r"x\*: no file matches this pattern; check it"):
        read_documents(tmp_path / "x*")
    for nothing, words in (([], "no file to read"), ("", "the path is empty; is a shell variable unset")):
        with pytest.raises(UsageError, match=words):
            read_documents(nothing)


def test_the_table_is_whole(tmp_path: Path) -> None:
    literals = formats.DocumentFormat, formats.KnowledgeBaseFormat, formats.ExportFormat
    for literal, table in zip(literals, (DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS, WRITERS), strict=True):
        names = {name for part in get_args(literal) for name in (get_args(part) or (part,))}
        assert names == {*table}
    assert {*formats.TABLES} < {*WRITERS}
    assert all(callable(writer(name)) for name in WRITERS)
    elsewhere = {"docbin", "parquet", "xlsx", "ecbplus-events", *formats.GRAPHS}
    assert {name.split()[0] for name in DOCUMENTS} == {*DOCUMENT_FORMATS} - elsewhere
    assert {name.split()[0] for name in ENTITIES} == {*KNOWLEDGE_BASE_FORMATS} - {"index", "parquet", "xlsx"}
    functions = read_documents, read_knowledge_base, lambda _, name: writer(name)
    for function, known in zip(functions, ("bioc, .*, tsv", "csv, .*, umls", "csv, tsv, .*, clusters"), strict=True):
        with pytest.raises(UsageError, match=f"unknown format 'xml'; known: {known}"):
            function(tmp_path, "xml")


@pytest.mark.parametrize("given", sorted(KNOWLEDGE_BASE_FORMATS))
@pytest.mark.parametrize("name", sorted({*ENTITIES} - {"umls"}))
def test_a_knowledge_base_of_another_format_is_an_error(tmp_path: Path, name: str, given: str) -> None:
    path = save(tmp_path, name, {"kb": next(iter(ENTITIES[name].values()))})
    if given == name:
        assert len(read("entities", path, given)) == 2
        return
    words = r"no entities in the format .*--kb-format|no \[Term\]|no list `graphs`|not JSON|give the folder "
    words += "that|no column is|the quotes of a cell|the Parquet file|not an index|not a workbook"
    for on_error in ("skip", "fail"):
        with pytest.raises(DataError, match=words if on_error == "skip" else str(path)) as caught:
            read("entities", path, given, on_error=on_error)
        assert str(caught.value.file).startswith(str(path))


@pytest.mark.parametrize(
    ("files", "guessed"),
    [
        ({"a": '{"id": "d", "text": "flu"}'}, "jsonl"),
        ({"a.dat": '"year";"document_id";"text"\n1;d;flu'}, "csv"),
        ({"a.dat": "document_id\ttext\nd\tflu"}, "tsv"),
        ({"a.txt": "id, text and so on. {"}, "text"),
        ({"a.txt": "Flu.", "b.csv": "id,text\nx,flu\n", "c.txt": "Cold."}, "text, like 2 of 3 files"),
        ({"a.txt": "PMID- 1\nTI  - One\n"}, "pubmed"),
        ({"a.txt": "The B-cell\nand vitamin O.\n"}, "text"),
    ],
)
def test_a_format_is_guessed_from_names_and_contents(tmp_path: Path, files: dict[str, str], guessed: str) -> None:
    path, announced = save(tmp_path, "", files), []
    read_documents(path if len(files) == 1 else tmp_path, announce_format=announced.append)
    assert announced == [guessed]


FORMAT = '<?xml version="1.0"?><Document doc_name="1"></Document>'


@pytest.mark.parametrize(
    ("path", "files", "words"),
    [
        (".", {"a.txt": "Flu.", "b.csv": "id,text\nx,flu\n"}, "a.txt looks like text, but b.csv like csv; give"),
        *((".", files, "the folder has no file of a known format; name files, or a pattern") for files in (
            {"a.txt": FORMAT}, {"a.dat": "flu"}, {"sub/docs.txt": "flu"}, {"a.dat": " \n"}
        )),
        ("X_corpus.dat", {"X_corpus.dat": "36_1ecb\t0\t3\tPerry\n"}, "expected a folder, or a file that ends in"),
        ("a.json", {"a.json": '[{"id": "d"}]'}, "an array in JSON; write one object a line, as pandas .*; formats: b"),
        ("a.dat", {"a.dat": "flu"}, r"a\.dat: the format cannot be guessed from the name and the cont.*; formats: b"),
        ("a.dat", {"a.dat": " \n"}, r"a\.dat: the file is empty$"),
        ("a.tsv", {"a.tsv": "name\tyear\nflu\t2\n"}, "no column is id or document_id"),
        ("a.json", {"a.json": '{"text": 5}'}, "a document needs the key 'id'"),
        ("a.xlsx", {"a.xlsx": "PK\3\4"}, r"a\.xlsx: not a workbook of Excel"),
        ("b.dat", {}, "no such file or folder; check the path"),
    ],
)  # fmt: skip
def test_a_format_that_cannot_be_guessed(tmp_path: Path, path: str, files: dict[str, str], words: str) -> None:
    save(tmp_path, "", {**files, ".hidden": ""})
    with pytest.raises(DataError, match=words):
        read_documents(tmp_path / path)


def test_types_choose_mentions_and_entities(tmp_path: Path) -> None:
    path = save(tmp_path, "pubtator", DOCUMENTS["pubtator"])
    assert read_documents(path, "pubtator", types="Disease").n_mentions == 3
    assert read_documents(path, "pubtator", types=["Disease", "Drug"]).n_mentions == 3
    with pytest.raises(UsageError, match="no mention has the type Diseases; types of mentions: Disease"):
        read_documents(path, "pubtator", types="Diseases")
    kb = save(tmp_path, "jsonl", ENTITIES["jsonl"])
    assert [entity.id for entity in read_knowledge_base(kb, types="Disease")] == ["D1"]
    with pytest.raises(UsageError, match="on_error must be 'fail' or 'skip', not 'ignore'"):
        read_documents(path, "pubtator", on_error="ignore")


def check_value(folder: Path, kind: str, name: str, piece: str, added: str) -> None:
    """Insert a valid piece into a good file and check the lines that `shown` gets by it."""
    files = files_of(kind, name)
    before = shown(read(kind, save(folder / "before", name, files), name)).splitlines()
    after = shown(read(kind, save(folder / "after", name, files, **places(kind, name, piece)), name)).splitlines()
    assert difference(before, after) == added


def difference(before: list[str], after: list[str]) -> str:
    """Return the lines that come to those before."""
    left = Counter(before)
    new = []
    for line in after:
        if left[line]:
            left[line] -= 1
        else:
            new.append(line.strip())
    return " / ".join(new)


def places(kind: str, name: str, piece: str) -> dict[str, str]:
    if name == "ecbplus" and piece.startswith(("{", '"')):
        return {"line": piece, "into": "X_Entity_gold_mentions.json"}
    begins = {"pubtator": "|t|", "conll": "#begin", "corefud": "# newdoc", "hipe": "#document_id"}.get(name)
    by_line = (kind == "documents" and name == "brat") or (begins is not None and begins not in piece)
    return {"line" if by_line else "document": piece}


def check_fault(
    folder: Path, kind: str, name: str, place: str, piece: str, words: str, offset: int = 0, what: str = ""
) -> None:
    """Insert a malformed piece into a good file: the error has its place, and without it the content is that before."""
    files = files_of(kind, name)
    good = read(kind, save(folder / "good", name, files), name)
    into = {"mention": "X_Entity_gold_mentions.json", "MRSTY": "MRSTY.RRF", "MRDEF": "MRDEF.RRF"}.get(place)
    mark, given = ("%%", "document") if place == "document" else ("@@", "line")
    path = save(folder / "bad", name, files, **{given: piece}, **({"into": into} if into else {}))
    with pytest.raises(DataError, match=words) as caught:
        read(kind, path, name)
    file, text = next((file, text) for file, text in files.items() if mark in text and into in (None, file))
    assert str(caught.value.file).startswith(str(folder / "bad" / file))
    if name not in WHOLE:
        assert caught.value.line == filled(text[: text.index(mark)]).count("\n") + 1 + offset
    items = read(kind, path, name, on_error="skip")
    default = {"line": "lines", "mention": "mentions", "document": kind}
    assert items.notes == {**good.notes, f"malformed {what or default.get(place, 'lines')} skipped": 1}
    assert [*items] == [*good]


def test_a_repeated_key_of_bioc_has_several_ids_and_what_was_split_is_said_once(tmp_path: Path) -> None:
    infons = {"type": ["Gene", "Other"], "NCBI Gene identifier": ["102", "103"]}
    written = "".join(f'<infon key="{key}">{value}</infon>' for key, values in infons.items() for value in values)
    (tmp_path / "docs.xml").write_text(
        "<collection><document><id>d</id><passage><offset>0</offset><text>abc xyz</text><annotation>"
        f'{written}<location offset="4" length="3"/><text>xyz</text></annotation></passage></document></collection>'
    )
    (read,) = read_documents(tmp_path / "docs.xml").mentions
    assert (read.type, read.gold) == ("Gene", ("102", "103"))
    (tmp_path / "docs.txt").write_text("1|t|abc xyz\n1|a|\n1\t4\t7\txyz\tGene\t102,103\n")
    kb = arbo.KnowledgeBase([arbo.Entity("102", "xyz"), arbo.Entity("103", "xyz like")])
    result = arbo.Linker(kb).link(read_documents(tmp_path / "docs.txt"))
    assert result.evaluate().linking.accuracy == 1
    (note,) = result.manifest["notes"]["gold"].items()
    assert note[0].endswith("such as '102,103'")
    assert note[1] == 1
