"""Read and write tables of documents, mentions or entities: CSV, TSV and Parquet.

    id,name,aliases,definition
    D010190,Pancreatic Neoplasms,"Cancer, pancreatic|Pancreas Cancer",Tumors of the pancreas.

Rows and columns are those of a frame (see `arbo.data.rows`), with column names in upper or lower case; further columns
are metadata. Several files, or the files of a folder, count as one table.

The first line of CSV (with commas or semicolons) and TSV has the names of the columns. It may stand below comments,
which begin with `#` and a blank, or be one of these, as in the tables of CTD. A column without a name gets its number.
An empty cell is a missing value. Items of a list are separated by `|`. White space around a cell is dropped, except in
texts. A quoted cell may contain delimiters, line ends and doubled quotes. A TSV of entities may have no column names;
its columns are then id, name, aliases and definition. If the quotes of a TSV do not match, or a cell has whole rows in
it, all are kept, since many programs never quote. In CSV, a cell that is no text and has whole rows in it is an error.

The writers quote texts. CSV has a byte order mark for Excel; since a spreadsheet would run a cell such as `=cmd()`,
its texts and column names that begin with `=`, `+`, `-`, `@`, a tab or a line end get the prefix `'`.
"""

import csv
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO, StringIO
from itertools import chain, compress
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from arbo.data import Corpus, KnowledgeBase, OnError, ids_in, numbers, starts
from arbo.data.entity_table import joined, table_of_columns
from arbo.data.objects import DOCUMENT_KEYS, ENTITY_KEYS
from arbo.data.rows import BLANK, COLUMNS, Placed, are_storable, documents_of, entities_of, tables_of_column
from arbo.data.tables import blank_notes
from arbo.errors import DataError
from arbo.files import PathLike, write_whole
from arbo.formats.files import LARGEST_ARCHIVE, MOST_PACKED, Paths, data_files, ending, read_head, read_text, unpacked
from arbo.formats.xlsx import joined_lists, read_cells

Kind = Literal["csv", "tsv", "xlsx", "parquet"]
HeaderOf = Callable[[Sequence[str], Path], tuple[list[str], bool]]  # is `_header` with some of its arguments

_KNOWN = {*DOCUMENT_KEYS, *ENTITY_KEYS, *COLUMNS}
_LISTS = {"aliases", "alternative_ids", "entities", "types", "xrefs"}
_TEXTS = {"text", "mention_text"}
_OFFSET = re.compile(r"-?[0-9]{1,18}(\.0*)?")
_NUMBERS = {"start": _OFFSET, "end": _OFFSET, "score": re.compile(r"-?[0-9]*\.?[0-9]+\.?(e[+-]?[0-9]+)?", re.I)}
_ENDS = {"\t": r"[\t\n]", ",": r"\n", ";": r"\n"}
"""What a quoted cell of a file with each delimiter has, if the file was never quoted and some of its rows look so."""
_BRIEF = _KNOWN - {*_TEXTS, "context", "definition"}
_IDS = {"pmid": "id", "PMID": "id", "Title": "title", "Abstract": "abstract"}
_IDS |= {"DiseaseID": "id", "ChemicalID": "id", "GeneID": "id", "DiseaseName": "name", "ChemicalName": "name"}
_IDS |= {"GeneSymbol": "name", "AltDiseaseIDs": "alternative_ids", "AltGeneIDs": "alternative_ids"}
_COMMENTS = re.compile(r"\A(?:#(?:[^\S\n][^\n]*)?\n)+")
_NAMES = re.compile(r"(document_)?id[,;\t]", re.I)
_WITHOUT_NAMES = ("id", "name", "aliases", "definition")
_BESIDE_NAMES = {*COLUMNS, "context"}  # columns that say more of a mention than its name and its id
_LIKE_NAMES = re.compile(r"(.*[\W_])?(id|identifier|code|cui|name|label|term|title|str)s?|\w+(?-i:ID|Name|Label)", re.I)
_ALIASES = {"alias", "synonym", "synonyms"}  # other names of the column ``aliases`` of entities
_SPLIT = "cells of aliases divided at `;`, since none has a `|`"
_ONE_EACH = "aliases with a `;` taken as one name: names are separated by `|`"
_FORMULA = r"\A([=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"  # and the full-width forms of the four signs


def read_documents(path: Paths, kind: Kind, *, on_error: OnError = "fail") -> Corpus:
    """Read documents or mentions from one or several tables, or from all tables of this kind in a folder."""
    return Corpus(documents_of(_rows(path, kind, _header), on_error))


def own_name(column: str) -> str:
    """Return the name that a column has when it is read: that of a known column in lower case."""
    return column.lower() if column.lower() in _KNOWN else column


def read_column(path: Path, column: str, *, on_error: OnError = "fail") -> Corpus:
    """Make a mention of each cell of a column; an empty cell is a blank name.

    Other columns keep their meaning; ``id`` is that of the document (without it, or if names alone have equal ones, the
    number of the row, from 0 on), ``text`` the text in which the mention stands, and ``context`` a text after it. The
    mention has the id of the document if no two rows have the same. Raise DataError if there is no such column.
    """
    column_name = own_name(column)
    kind: Any = next((one for one in get_args(Kind) if one == ending(path)), "csv")
    rows = [*_rows(path, kind, partial(_header, column=column_name))]
    named = [row for _, row in rows if isinstance(row, dict)]
    if not rows:
        raise DataError("no names: the table is empty", file=str(path))
    if kind == "parquet" and named and column_name not in named[0]:  # a short line of CSV has no last cells
        raise DataError(f"there is no column {column!r}; the columns are {', '.join(named[0])}", file=rows[0][0])
    for row in named:
        row[column_name] = "" if (cell := row.get(column_name)) is None else str(cell).strip()
    names, ids = [row[column_name] for row in named], [str(row["id"]) for row in named if row.get("id") is not None]
    are_alone = 0 < len(named) == len(rows) and _BESIDE_NAMES.isdisjoint({*chain.from_iterable(named)} - {column_name})
    if are_alone and are_storable(names) and are_storable(ids):
        corpus = Corpus(tables_of_column((), named, column_name))
    else:
        used = sorted({*chain.from_iterable(named)} & {"context", "domain"} - {column_name})
        corpus = Corpus(documents_of(_in_texts(rows, column_name), on_error))
        note = "rows with a {}, which has a meaning of its own; rename the column if it is data"
        corpus.notes.update({note.format(name): len(named) for name in used})
    corpus.notes.update(blank_notes(corpus.tables))
    return corpus


def _in_texts(rows: Sequence[Placed], column: str) -> Sequence[Placed]:
    """Return rows of mentions, each the name in a column with the text in which it stands."""
    named = [(number, row) for number, (_, row) in enumerate(rows) if isinstance(row, dict)]
    for number, row in named:
        name, context, id_ = row.pop(column), row.pop("context", None), row.pop("id", None)
        text = row.get("text") or name
        if not name:
            name = text = BLANK
        elif context or name not in text:
            text = f"{name}\n{context or text}"
        start, id_ = text.index(name), str(number if id_ is None else id_)
        row |= {"document_id": id_, "text": text, "start": start, "end": start + len(name)}
    if len({row["document_id"] for _, row in named}) == len(named):
        for _, row in named:
            row.setdefault("mention_id", row["document_id"])
    return rows


def read_entities(
    path: Paths, kind: Kind = "tsv", *, columns: Mapping[str, str] = {}, on_error: OnError = "fail"
) -> KnowledgeBase:
    """Read entities from one or several tables, or from all tables of this kind in a folder.

    ``columns`` maps keys, such as ``name``, to columns of CSV or TSV. Raise DataError if there is no such column.
    Whole columns are checked at once; if a value is not valid, the rows are read one by one, to say where it is.
    """
    files = data_files(path, (f".{kind}",))
    kb: KnowledgeBase | None = None
    header_of = partial(_header, names=_WITHOUT_NAMES if kind == "tsv" else (), columns=columns)
    read = _parquet_columns if kind == "parquet" else partial(_columns, kind=kind, header_of=header_of)
    if kind != "xlsx" and all(map(Path.is_file, files)):  # a pipe can be read only once
        with suppress(DataError, OSError, ValueError, csv.Error, pa.ArrowException):
            kb = KnowledgeBase(joined([table_of_columns(read(file)) for file in files]))
    if kb is None or "duplicate entities dropped" in kb.notes:  # rows are compared as they are, with empty aliases
        kb = KnowledgeBase(entities_of(_rows(path, kind, header_of), on_error))
    aliases = kb.table["aliases"]
    sizes, names = pc.list_value_length(aliases), aliases.flatten()
    n = pc.sum(pc.match_substring(names, ";")).as_py() if pc.max(sizes).as_py() == 1 else 0
    if not n:
        return kb
    first = read_head(files[0]).partition("\n")[0] if kind in ("csv", "tsv") else ""
    first = " ".join(cells_of(files[0], kind)[0][1]) if kind == "xlsx" else first
    if is_other := n > 1 and "synonym" in first.lower():  # a separator that is not arbo's own
        parts = _items(names, ";")
        split = pa.ListArray.from_arrays(parts.offsets.take(starts(sizes)), parts.values).cast(aliases.type)
        kb = kb.changed(kb.table.set_column(kb.table.schema.get_field_index("aliases"), "aliases", split))
    kb.notes.update({_SPLIT if is_other else _ONE_EACH: n})
    return kb


def _parquet_columns(file: Path) -> dict[str, pa.Array]:
    table = pa.Table.from_batches(batches(file))
    return {name: table[name].combine_chunks() for name in table.column_names}


def _columns(file: Path, kind: Kind, header_of: HeaderOf) -> dict[str, pa.Array]:
    """Return the columns of a table of entities; raise DataError or ArrowException if only its rows can be read."""
    text, delimiter = _content(file, kind)
    text = text.lstrip("\n")
    first = text.partition("\n")[0].removesuffix("\r")
    content = np.frombuffer(f"\n{text}\n".encode(), np.uint8)
    quote, around = np.flatnonzero(content == ord('"')), [*f'\r\n"{delimiter}'.encode()]
    begins, ends = content[quote[::2] - 1], content[quote[1::2] + 1]
    if len(begins) > len(ends) or not (np.isin(begins, around).all() and np.isin(ends, around).all()):
        raise DataError("a quote stands inside a cell")
    if not first.strip() or "\r" in first or first.count('"') % 2:
        raise DataError("the first line is blank or ends elsewhere")
    cells = next(csv.reader([first], delimiter=delimiter))
    header, has_names = header_of(cells, file)
    header = header if has_names else header[: len(cells)]
    if not {*header} & _KNOWN <= ENTITY_KEYS.keys():
        raise DataError("some cells become texts or numbers")
    places = [*map(str, range(len(header)))]
    table = pyarrow.csv.read_csv(
        pa.BufferReader(content[1:]),
        pyarrow.csv.ReadOptions(column_names=places, skip_rows=int(has_names), block_size=1 << 24),
        pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(places, pa.large_string())),
    )
    trimmed = [pc.utf8_trim_whitespace(column.combine_chunks()) for column in table.columns]
    has_ends = (pc.any(pc.match_substring_regex(column, _ENDS[delimiter])).as_py() for column in trimmed)
    if _may_hide_rows(compress(header, has_ends), delimiter):
        raise DataError("rows are perhaps in a cell")
    sizes = [np.from_dlpack(pc.binary_length(column)) for column in trimmed]
    rows = np.flatnonzero(np.sum(sizes, axis=0))  # those that are not blank
    filled = (column.take(numbers(rows, missing=size[rows] == 0)) for column, size in zip(trimmed, sizes, strict=True))
    return {name: _items(cells, "|") if name in _LISTS else cells for name, cells in zip(header, filled, strict=True)}


def _items(cells: pa.Array, separator: str) -> pa.Array:
    lists = pc.split_pattern(cells, separator)
    return pa.ListArray.from_arrays(lists.offsets, pc.utf8_trim_whitespace(lists.values))


def _rows(path: Paths, kind: Kind, header_of: HeaderOf) -> Iterator[Placed]:
    read = _parquet if kind == "parquet" else partial(_delimited, kind=kind, header_of=header_of)
    return chain.from_iterable(map(read, data_files(path, (f".{kind}",))))


def _parquet(file: Path) -> Iterator[Placed]:
    rows = chain.from_iterable(batch.to_pylist() for batch in batches(file))
    return ((f"{file}, row {number}", row) for number, row in enumerate(rows))


def batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file in small batches, since a short dictionary can stand for values of any size.

    Raise DataError if the file cannot be read, or unpacks to far more than its size.
    """
    with unpacked(file) as stream:
        content, total = stream.read(), 0
    try:
        for batch in pq.ParquetFile(BytesIO(content)).iter_batches(1024):
            columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in batch.columns]
            total += sum(column.nbytes for column in columns)
            if total > max(LARGEST_ARCHIVE, MOST_PACKED * len(content)):
                most = f"more than {LARGEST_ARCHIVE >> 20} MiB, and {MOST_PACKED} times its own size"
                raise DataError(f"the Parquet file unpacks to {most}; write it without dictionaries", file=str(file))
            decoded = pa.RecordBatch.from_arrays(columns, batch.schema.names)
            decoded.validate(full=True)
            yield decoded
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of a name of a column
        reason = str(error).partition("\n")[0]
        problem = f"the Parquet file is damaged, or unknown to pyarrow ({reason:.100}); write it again"
        raise DataError(problem, file=str(file)) from None


def _delimited(file: Path, kind: Kind, header_of: HeaderOf) -> Iterable[Placed]:
    lines = cells_of(file, kind)
    header, has_names = header_of(lines[0][1], file) if lines else ([], False)
    for line, cells in lines[has_names:]:
        place = f"{file}, line {line}"
        if len(cells) > len(header):
            problem = f"the line has {len(cells)} cells for {len(header)} columns ({', '.join(header)})"
            yield place, DataError(f"{problem:.200}; quote the cells with delimiters in them", id=cells[0].strip()[:60])
        else:
            row = {name: _value(name, cell) for name, cell in zip(header, cells, strict=False)}
            if "abstract" in row and "text" not in header:
                row["text"] = "\n".join(str(row.pop(name)) for name in ("title", "abstract") if row.get(name))
            # A document may be empty; in a row of a mention, an empty text means the text of an earlier row.
            yield place, row | {"text": ""} if row.get("text", "") is None and "id" in header else row


def _header(
    cells: Sequence[str],
    file: Path,
    names: Sequence[str] = (),
    column: str | None = None,
    columns: Mapping[str, str] = {},
) -> tuple[list[str], bool]:
    """Return the names of columns, and whether the first line has them; ``names`` are those of a file without names.

    ``column`` must be there; for ``columns`` see `read_entities`.
    """
    first = [cell.strip() for cell in cells]
    first[0] = re.sub(r"\A#(?=(document_)?id\Z)", "", first[0], flags=re.I)
    has, key_of = f"the columns are {', '.join(first)!r:.200}", {name: key for key, name in columns.items()}
    header = [own_name(key_of.get(name, name)) or f"column {number}" for number, name in enumerate(first, 1)]
    if missing := sorted({*key_of} - {*first} if column is None else {column} - {*header}):
        raise DataError(f"there is no column {missing[0]!r:.60}; {has}", file=str(file), line=1)
    if column is None and not {"id", "document_id"} & {*header}:
        header = [_IDS.get(name, name) for name in header]
    if column is None and {"id", "name"} <= {*header} and "aliases" not in header:
        header = ["aliases" if name.lower() in _ALIASES else name for name in header]
    has_names = column is not None or bool({"id", "document_id"} & {*header})
    if names and not has_names and not all(_LIKE_NAMES.fullmatch(key_of.get(name, name)) for name in first[:2]):
        header = [*names]
    elif not has_names:
        wrong = f"no column is id or document_id; {has}; rename one, or read a column of names with --text-column"
        alone = ", or lines that are names, without a header, with --format text" if len(header) == 1 else ""
        raise DataError(wrong + alone, file=str(file), line=1)
    if twice := [name for name, times in Counter(header).items() if times > 1]:
        raise DataError(f"two columns are named {twice[0]!r:.60}; rename one", file=str(file), line=1)
    return header, has_names


def _content(file: Path, kind: str) -> tuple[str, str]:
    """Return the text of a table, in which comments are blank lines, and its delimiter."""
    text = read_text(file)
    if comments := _COMMENTS.match(text):
        lines = [line[1:].strip(" \r") for line in comments[0].split("\n")[:-1]]
        named = [line for at, line in enumerate(lines) if _NAMES.match(line) or lines[at - 1 : at] == ["Fields:"]]
        named = [] if _NAMES.match(text, comments.end()) else named[-1:]
        text = "\n" * (len(lines) - len(named)) + "".join(f"{line}\n" for line in named) + text[comments.end() :]
    return text, max(",;" if kind == "csv" else "\t", key=text.lstrip("\n").partition("\n")[0].count)


def cells_of(file: Path, kind: str) -> list[tuple[int, list[str]]]:
    """Return the cells of each row that is not blank, with the number of the row's first line."""
    if kind == "xlsx":
        return read_cells(file)
    text, delimiter = _content(file, kind)
    before = csv.field_size_limit(max(len(text), 1))
    try:
        return list(_parsed(text, delimiter, csv.QUOTE_MINIMAL))
    except DataError as error:
        if delimiter == "\t":
            return list(_parsed(text, delimiter, csv.QUOTE_NONE))
        raise error.at(str(file)) from None
    finally:
        csv.field_size_limit(before)


def _parsed(text: str, delimiter: str, quoting: Literal[0, 3]) -> Iterator[tuple[int, list[str]]]:
    lines = StringIO(text, newline="").readlines()
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    names, begin = list[str](), 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                names = names or [name.strip() for name in cells]
                if reader.line_num > begin or (delimiter == "\t" and len(cells) < len(names)):
                    _check_row(names, cells, lines[begin - 1 : reader.line_num], delimiter, begin)
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        problem = f"the quotes of a cell do not match ({error}); write each quote inside a cell twice"
        raise DataError(problem, line=begin) from None


def _check_row(names: list[str], cells: list[str], lines: list[str], delimiter: str, line: int) -> None:
    """Raise DataError if each line of a row has as many cells as the table has columns, and a cell hides some."""
    columns = [name for name, cell in zip(names, cells, strict=False) if re.search(_ENDS[delimiter], cell)]
    n_cells = {one.count(delimiter) + 1 for one in lines}
    if len(names) > 1 and n_cells == {len(names)} and _may_hide_rows(map(own_name, columns), delimiter):
        problem = f"the column {columns[0]!r:.60} has cells of a whole row in one cell"
        raise DataError(f"{problem}; write each quote inside a cell twice", line=line)


def _may_hide_rows(columns: Iterable[str], delimiter: str) -> bool:
    """Return whether `_ENDS` in a cell of one of the columns are suspicious; in texts, lines may have commas."""
    return any(delimiter == "\t" or name in _BRIEF for name in columns)


def _value(name: str, cell: str) -> object:
    if name in _TEXTS:
        return cell or None
    if not (cell := cell.strip()):
        return None
    if name in _LISTS:
        return [*(ids_in(cell, "|") or [""])] if name == "entities" else [item.strip() for item in cell.split("|")]
    return float(cell) if name in _NUMBERS and _NUMBERS[name].fullmatch(cell) else cell


def write_csv(table: pa.Table, path: PathLike) -> Counter[str]:
    """Write a CSV file, gzipped if its name ends in `.gz`; count cells that begin like a formula."""
    columns = dict(zip(table.column_names, map(joined_lists, table.columns), strict=True))
    guarded = Counter[str]()
    for name, column in columns.items():
        if column.type in (pa.string(), pa.large_string()):
            columns[name] = pc.replace_substring_regex(column, _FORMULA, "'\\1")
            guarded[name] = pc.sum(pc.not_equal(column, columns[name])).as_py() or 0
    names = pc.replace_substring_regex(pa.array([*columns], pa.string()), _FORMULA, "'\\1").to_pylist()
    _write_delimited(pa.table(list(columns.values()), names), path, ",", b"\xef\xbb\xbf")
    note = f"cells beginning like a formula got a ' in front ({', '.join(+guarded)}); tsv keeps them as they are"
    return Counter({note: guarded.total()})


def write_tsv(table: pa.Table, path: PathLike) -> Counter[str]:
    """Write a file of tab-separated values, gzipped if its name ends in `.gz`; no text is changed."""
    _write_delimited(pa.table([*map(joined_lists, table.columns)], table.column_names), path, "\t", b"")
    return Counter()


def _write_delimited(table: pa.Table, path: PathLike, delimiter: str, mark: bytes) -> None:
    def write(partial: Path) -> None:
        with pa.output_stream(partial, compression="gzip" if os.fspath(path).endswith(".gz") else None) as stream:
            stream.write(mark)
            pa.csv.write_csv(table, stream, pa.csv.WriteOptions(delimiter=delimiter))

    write_whole(path, write)
