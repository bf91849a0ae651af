"""Read and write BRAT standoff: the text in `NAME.txt`, its annotations in `NAME.ann`; the document id is NAME.

    T1 <tab> UBERON 16 20;31 37 <tab> left kidney
    N1 <tab> Reference T1 UBERON:0004538 <tab> left kidney
    #1 <tab> AnnotatorNotes T1 <tab> C0227613

A path is a folder of such pairs (plain or `.gz`), or one file of a pair. Offsets count the code points of the text in
the file; a line end of two characters counts as two. The mention `T1` has the id `NAME:T1`, and its label is its type.

- Fragments, such as `16 20;31 37`, are the spans of one mention in the given order; they may overlap. A mention that
  BRAT split at a line end stays split.
- The ids in `N` lines, and UMLS ids (C and seven digits) in `AnnotatorNotes`, are gold ids; each of several ids is
  acceptable. A note without such an id is ignored. BRAT cannot express NIL: a mention without an id is not annotated.
- Relations, events, attributes and other notes are `other lines` in the metadata, and written again if ids are kept.
- A text without annotations is ignored, unless it is the given path. Annotations without a text are an error.

The writer makes a folder with `ID.txt` and `ID.ann` for each document. An id that is not a valid file name, on Windows
or elsewhere, is percent-encoded, as is one that differs from an earlier one only in case. Mentions that come from BRAT
keep their `T` numbers. A gold id is an `N` line, with its name if known; a UMLS id is a note, as in QUAERO.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import quote

from arbo.data import Corpus, Document, Marked, Mention, OnError, Records, grouped
from arbo.data.documents import compare, marked_document, span_between, text_of
from arbo.errors import DataError
from arbo.files import PathLike
from arbo.formats.files import Paths, check_id, data_files, each_path, kept_lines, new_folder, one_line, read_text

TEXT, ANNOTATIONS = SUFFIXES = (".txt", ".ann")

_OTHERS = "other lines"
_UMLS_ID = re.compile(r"\bC[0-9]{7}\b")

_FILE_NAME = re.compile(r"[^./\\%<>:\"|?*\x00-\x1f][^/\\%<>:\"|?*\x00-\x1f]*")
_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³]) *(\.|$)", re.IGNORECASE)
_ID = re.compile(r"\S([^\t\r\n]*\S)?")
_ON_ONE_LINE = re.compile(r"[^\r\n]+")


def read_documents(path: Paths, *, on_error: OnError = "fail") -> Corpus:
    """Read all pairs of text and annotations in a folder, or the pair to which a file belongs."""
    records: Records[Document] = Records("documents", on_error)
    # Of many files of a folder, it is listed once.
    files_in = cache(lambda folder: grouped((_pair_of(file)[0], file) for file in data_files(folder, SUFFIXES)))
    for one in each_path(path):
        for pair, files in _pairs(one, files_in).items():
            if ANNOTATIONS not in files and files[TEXT] != one:
                records.notes["texts without annotations ignored"] += 1
                continue
            file, contents = files.get(ANNOTATIONS, one), {ending: read_text(file) for ending, file in files.items()}
            with records.record(file, 1):
                if missing := {*SUFFIXES} - files.keys():
                    wrong = f"the file {pair.name}{missing.pop()} beside this one is missing"
                    raise DataError(f"{wrong}; a document needs a text and its annotations")
                records.add(_document(pair.name, contents[TEXT], file, contents[ANNOTATIONS], records), file, 1)
    return Corpus(records)


def _pairs(path: Path, files_in: Callable[[Path], Mapping[Path, list[Path]]]) -> Mapping[Path, dict[str, Path]]:
    """Return the files of each pair by their endings: of all pairs in a folder, or of that of a file."""
    data_files(path, (ANNOTATIONS,))  # raises if there are none
    is_folder, (own, ending) = path.is_dir(), _pair_of(path)
    if not is_folder and ending not in SUFFIXES:
        problem = f"expected a folder, or a file that ends in {', '.join(SUFFIXES)}; unpack an archive first"
        raise DataError(problem, file=str(path))
    files_of, pairs = files_in(path if is_folder else path.parent), defaultdict[Path, dict[str, Path]](dict)
    for pair in files_of if is_folder else [own]:
        for file in files_of[pair]:
            if (first := pairs[pair].setdefault(_pair_of(file)[1], file)) is not file:
                raise DataError(f"this file occurs again as {first}; remove one of the two", file=str(file))
    return pairs


def _pair_of(file: Path) -> tuple[Path, str]:
    """Return the path of a pair without the ending of one of its files, and this ending."""
    plain = file.with_suffix("") if file.suffix.lower() == ".gz" else file
    return plain.with_suffix(""), plain.suffix.lower()


def _document(document_id: str, text: str, file: Path, annotations: str, records: Records[Document]) -> Document:
    lines = [(at, line.removesuffix("\r").split("\t")) for at, line in enumerate(annotations.split("\n"), start=1)]
    mentions: dict[str, Marked] = {}
    for number, columns in lines:
        with records.record(file, number, kind="lines"):
            if (name := f"{document_id}:{columns[0]}") in mentions:
                raise DataError("two T lines of this document have this id; change one", id=name)
            if columns[0].startswith("T"):
                mentions[name] = _mention(columns, name, text, records.notes)
    gold, others = defaultdict[str, dict[str, None]](dict), list[str]()
    for number, columns in lines:
        with records.record(file, number, kind="lines"):
            is_note = columns[0].startswith("#") and "".join(columns[1:2]).startswith("AnnotatorNotes T")
            if columns != [""] and not (is_note or columns[0][:1] in ("T", "N")):
                others.append("\t".join(columns))
            for target, concept in _concepts(columns, document_id, records.notes):
                if target not in mentions:
                    raise DataError("this mention has a gold id but no T line; add one, or drop the id", id=target)
                gold[target][concept] = None
    marked = (one._replace(gold=(*gold[name],) or None) for name, one in mentions.items())
    return marked_document(document_id, text, marked, metadata={_OTHERS: others} if others else {})


def _mention(columns: list[str], name: str, text: str, notes: Counter[str]) -> Marked:
    if len(columns) != 3:
        raise DataError(f"expected 3 tab-separated columns (id, label and offsets, text), not {len(columns)}", id=name)
    label, _, offsets = columns[1].partition(" ")
    if not label:
        raise DataError("the mention has no label before its offsets", id=name)
    ends = [fragment.partition(" ") for fragment in offsets.split(";")]
    if odd := [start for start, blank, _ in ends if not blank]:
        raise DataError(f"expected `start end` after the label and each semicolon, not {odd[0]!r:.60}", id=name)
    spans = tuple(span_between(start, end, text, of=name) for start, _, end in ends)
    compare(columns[2], spans, text, notes, of=name)
    return Marked(spans, label, id=name)


def _concepts(columns: list[str], document_id: str, notes: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield the mention and the concept id of an N line or a note; count what it ignores."""
    if columns == [""] or columns[0].startswith("T"):
        return
    kind, *rest = "".join(columns[1:2]).split(maxsplit=2) or [""]
    target = f"{document_id}:{rest[0]}" if rest and rest[0].startswith("T") else None
    if columns[0].startswith("N"):
        if len(rest) != 2:
            raise DataError(f"expected `Reference T1 ONTOLOGY:ID`, not {' '.join(columns[1:2])!r:.60}", id=columns[0])
        if target is None:
            notes["references of events and relations ignored"] += 1
        else:
            yield target, rest[1].strip()
    elif columns[0].startswith("#") and kind == "AnnotatorNotes" and target is not None:
        ids = _UMLS_ID.findall(" ".join(columns[2:]))
        notes["annotator notes without a UMLS id ignored"] += not ids
        yield from ((target, id_) for id_ in ids)


def write_brat(documents: Iterable[Document], folder: PathLike, names: Mapping[str, str]) -> Counter[str]:
    """Write a folder of pairs, and types for BRAT, see `new_folder`; raise DataError for an id that it cannot hold."""
    notes: Counter[str] = Counter()
    taken, types, relations = set[str](), set[str](), set[str]()
    with new_folder(folder) as partial:
        for document in documents:
            name = _file_name(document.id, taken)
            notes["document ids percent-encoded to be file names"] += name != document.id
            # A reader drops a byte order mark, so a text that begins with one needs a second.
            text = "\ufeff" * document.text.startswith("\ufeff") + document.text
            (partial / f"{name}.txt").write_bytes(text.encode())
            lines = "".join(f"{line}\n" for line in _annotation_lines(document, names, notes))
            (partial / f"{name}.ann").write_bytes(lines.encode())
            types.update(map(_label, document.mentions))
            of_document = (one.split("\t") for one in kept_lines(document, _OTHERS))
            relations.update(one[1].split()[0] for one in of_document if one[0].startswith("R") and one[1:])
        known = "".join(f"{label}\n" for label in sorted(types))
        between = "".join(f"{label}\tArg1:<ENTITY>, Arg2:<ENTITY>\n" for label in sorted(relations))
        sections = f"[entities]\n{known}\n[relations]\n{between}\n[events]\n\n[attributes]\n"
        (partial / "annotation.conf").write_text(sections, "utf-8")
    return notes


def _label(mention: Mention) -> str:
    return "_".join((mention.type or "").split()) or "Mention"


def _file_name(id_: str, taken: set[str]) -> str:
    """Return a name that every file system holds beside those taken, whatever their case, and take it."""
    name = id_ if _FILE_NAME.fullmatch(id_) else quote(id_, safe=" ").replace(".", "%2E")
    folded = unicodedata.normalize("NFC", name.casefold())
    if _DEVICE.match(name) or folded in taken:
        name = "".join(f"%{byte:02X}" for byte in id_.encode())  # which no other id gets
    taken.add(folded)
    return name


def _annotation_lines(document: Document, names: Mapping[str, str], notes: Counter[str]) -> Iterator[str]:
    text, others = document.text, kept_lines(document, _OTHERS)
    numbers = [mention.id.removeprefix(f"{document.id}:") for mention in document.mentions]
    if not all(re.fullmatch(r"T[0-9]+", number) for number in numbers):
        numbers, others = [f"T{place}" for place in range(1, len(numbers) + 1)], []
    reference = count(1 + max((int(n) for line in others for n in re.findall(r"\A#([0-9]+)", line)), default=0))
    yield from others
    for number, mention in zip(numbers, document.mentions, strict=True):
        spans = [match.span() for start, end in mention.spans for match in _ON_ONE_LINE.finditer(text, start, end)]
        if not spans:
            notes["mentions of nothing but line ends left out"] += 1
            continue
        label = _label(mention)
        notes["mentions split or cut at a line end"] += spans != [*mention.spans]
        differs = label != mention.type
        notes["mentions whose label differs from their type: `Mention` for none, `_` for blanks"] += differs
        notes["NIL mentions written without an id"] += mention.gold == ()
        yield f"{number}\t{label} {';'.join(f'{a} {b}' for a, b in spans)}\t{one_line(text_of(spans, text))}"
        for id_ in mention.gold or ():
            if _UMLS_ID.fullmatch(check_id(id_, _ID, of=mention.id)):
                yield f"#{next(reference)}\tAnnotatorNotes {number}\t{id_}"
            else:
                yield f"N{next(reference)}\tReference {number} {id_}\t{one_line(names.get(id_, ''))}"
