"""The page of a run: its content as blocks, which a served page asks for, and the page as one file.

The blocks are the tables of the run and its partitions as columns, and its texts apart from them. The file is HTML with
its style, its script and its data, which asks for nothing else. Its policy allows the one script and the one style, by
their hashes, and nothing from anywhere. Its data are in elements that browsers do not run; its strings reach the page
as text nodes alone.
"""

import gzip
import hashlib
import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.errors import UsageError
from arbo.explore.cuts import cuts_of, trees
from arbo.files import PathLike, json_ready, write_whole
from arbo.results.diff import diff
from arbo.results.evaluation import best_scores, evaluate
from arbo.results.export import sentence_blocks
from arbo.results.run import Ints, Run
from arbo.results.schema import SCHEMA
from arbo.results.views import WRONG, ends_of, wrong_kinds

_CANDIDATES, _ALIASES, _BINS = 4, 12, 40
"""Numbers of candidates of a mention, aliases of an entity, and bars of the dissimilarities on the page."""
_ELSEWHERE = ("entity_id", "entity_name", "cluster_id")
_SCRIPTS = "dom charts views views_one views_document views_threshold changes app columns cuts source"
"""The modules that all pages have, each after those that it imports when it is read."""
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z_]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.MULTILINE)


def report(run: Run, path: PathLike, *, name: str = "run", texts: bool = True, before: Run | None = None) -> int:
    """Write the page of a run, and return its size in bytes; see `arbo explore --out`.

    Without ``texts``, the page holds no text of a document; mentions keep their own texts, but not their long forms. It
    shows what changed since ``before``. Equal runs give equal files. Raise UsageError if it cannot be written.
    """
    blocks = Payload(run, name, texts=texts, before=before).blocks
    html, _ = shell(["file"], ["page"], title=name, data="\n".join(_block(*block) for block in blocks))
    content = html.encode("utf-8")
    write_whole(path, lambda partial: partial.write_bytes(content))
    return len(content)


def shell(
    scripts: Sequence[str], styles: Sequence[str], *, title: str, data: str = "", connect: str = "'none'"
) -> tuple[str, str]:
    """Return the HTML of a page of `_SCRIPTS` and some more, and its policy; ``connect`` is what it may ask."""
    modules = (_static(f"{name}.js") for name in [*_SCRIPTS.split(), *scripts])
    script = "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)
    style = "".join(_static(f"{name}.css") for name in styles)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    head = {"policy": escape(policy), "title": escape(title)}
    return _static("page.html").format(**head, style=style, script=script, data=data), policy


def _block(name: str, content: bytes) -> str:
    packed = gzip.compress(content, 5, mtime=0)  # 9 takes seven times as long for 2 % less
    return f'<script type="application/octet-stream" id="{name}">{b64encode(packed).decode()}</script>'


def _static(name: str) -> str:
    return files("arbo.explore").joinpath("static", name).read_text("utf-8")


def _hash(content: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode()


@dataclass(eq=False, repr=False)
class Payload:
    """The content of a page as blocks, which it asks for by name; ``static/source.js`` makes all views of them."""

    run: Run
    name: str
    texts: bool = True
    """Whether sentences are readable; mentions keep their own texts, but without this not their long forms."""
    before: Run | None = None
    """An earlier run, which is named ``since``."""
    since: str | None = None
    described: bool = False
    """Whether the page can ask for what a knowledge base says about entities."""

    def __post_init__(self) -> None:
        self.texts, self._cuts = self.texts and self.run.has_texts, cuts_of(self.run)
        self._known = _Entities(self.run, None if isinstance(self._cuts, str) else self._cuts.entities)
        self._wrong = wrong_kinds(self.run)

    @cached_property
    def overview(self) -> dict[str, Any]:
        """The counts, scores (none without gold annotations), dissimilarities and sizes of the run; ready for JSON."""
        run, manifest, links = self.run, self.run.manifest, self.run.link_table
        nil, kb = links["entity_id"].null_count, manifest["knowledge_base"]
        size, count = np.unique(run.cluster_table["size"].to_numpy(), return_counts=True)
        (entries,) = evaluate(run).report("run").systems.values()
        sure = links["confidence"] if "confidence" in links.column_names else pa.nulls(0, pa.float32())
        return {
            "mentions": links.num_rows,
            "documents": len(run.document_table),
            "linked": links.num_rows - nil,
            "nil": nil,
            "clusters": run.cluster_table.num_rows,
            "discovered": run.cluster_table["entity_id"].null_count,
            "kb": None if kb is None else f"{kb['entities']:,} entities",
            "method": manifest["config"]["method"],
            "k": manifest["config"]["k"],
            "choices": run.choices,
            "evidence": run.evidence,
            "limits": manifest.get("limits", {}),
            "threshold": {kind: json_ready(manifest["threshold"][kind]) for kind in ("entity", "mention")},
            "offset": manifest["offset"],
            "doubtful": pc.sum(pc.less(sure, 0.5)).as_py() or 0,  # more likely wrong than right
            "wrong": Counter(WRONG[kind] for kind in self._wrong.tolist() if kind >= 0).most_common(),
            "scores": {name: entry.as_dict() for name, entry in entries.items()},
            "histogram": _histogram(run),
            "sizes": np.column_stack([size, count]).tolist(),
            "name": self.name,
            "texts": self.texts,
            "aliases": _ALIASES,
            "links": _link_columns(run),
            "changes": self.before is not None,
            "described": self.described,
            "no_cuts": self._cuts if isinstance(self._cuts, str) else None,
        }

    @cached_property
    def tables(self) -> bytes:
        """The mentions, links, clusters and entities as columns, with the trees of the clusters."""
        columns = Columns()
        _add_mentions(columns, self.run, self.texts)
        if (self._wrong >= 0).any():
            verdict = np.array([*WRONG, "right"], object)[self._wrong]
            unknown = self.run.mention_table["gold"].is_null().to_numpy()
            columns.codes("verdict", pa.chunked_array([pa.array(verdict, pa.string(), mask=unknown)]))
            ids = (self.run.mention_table[name].to_pylist() for name in ("gold_entities", "gold"))
            meant = [(own or gold or [None])[0] for own, gold in zip(*ids, strict=True)]
            columns.codes("meant", pa.chunked_array([pa.array(meant, pa.string())]))
        _add_links(columns, self.run, self._known)
        parent, step = trees(self.run, self._cuts)
        columns.numbers("parent", parent)
        columns.numbers("step", step)
        _add_names(columns, self.run, self._known)
        return columns.packed()

    @cached_property
    def cuts(self) -> bytes:
        """The differences of the partitions at other thresholds as columns, with these and the places that they have.

        Raise UsageError without the graph.
        """
        if isinstance(self._cuts, str):
            raise UsageError(self._cuts)
        cuts, known = self._cuts, self._known
        columns, page_row = Columns(), np.append(known.rows(cuts.entities), -1)
        places, earlier, rows, roots = zip(*cuts.differences(), strict=True)
        root, number = np.concatenate(roots), {place: i for i, place in enumerate(places)}
        columns.numbers("count", [len(names) for names in rows])
        columns.numbers("row", np.concatenate(rows), sorted_=True)
        columns.numbers("root", np.where(root >= 0, page_row[np.maximum(root, 0)], root))
        base = cuts.roots(cuts.base)  # of a known entity, its row on the page
        members, start = cuts.run.rows_of_cluster
        columns.numbers("discovered.root", -1 - base[members[start[known.n_linked : -1]]])
        points = [[*place, number[one]] for place, one in zip(places, earlier, strict=True)]
        return columns.packed(cuts=json_ready(cuts.values), points=points)

    @cached_property
    def changes(self) -> dict[str, Any]:
        """The clusters that changed since the run before this one, those that matter most first."""
        if self.before is None:
            return {"rows": [], "counts": {}, "since": None}
        changes = diff(self.before, self.run)
        return {"rows": changes.ranked.to_pylist(), "counts": changes.counts(), "since": self.since}

    @property
    def blocks(self) -> Iterator[tuple[str, bytes]]:
        """The blocks that a page in a file holds, with its texts, in the order in which it has them."""
        if self.texts:
            texts = Columns()
            texts.strings("text", self.run.document_table["text"])
            yield "texts", texts.packed()
        yield "tables", self.tables
        if self.overview["no_cuts"] is None:
            yield "cuts", self.cuts
        if self.overview["changes"]:
            yield "changes", json.dumps(json_ready(self.changes)).encode()
        yield "overview", json.dumps(self.overview).encode()


class Columns:
    """Collects columns of numbers and strings, and writes them as bytes; `static/columns.js` reads them.

    The bytes are the length of a JSON header (4 bytes, little-endian), the header, and the columns. The header has the
    ``columns`` as ``[name, kind, length]``. Numbers have four bytes each; all first bytes come first, then all second
    bytes and so on, which compresses well. Kinds: ``i`` integers; ``d`` differences of integers; ``f`` the bits of a
    float32, NaN for null; ``s`` strings, as the number of bytes of each in UTF-8 (kind ``i``), then their bytes with a
    NUL, which no text of a run has, between each two.
    """

    def __init__(self) -> None:
        self._columns: list[tuple[str, str, int, bytes]] = []

    def numbers(self, name: str, values: Any, *, sorted_: bool = False) -> None:
        """Add integers, or numbers as float32, of which null and infinities become null.

        With ``sorted_``, add integers as differences, which compress better if neighbours are alike.
        """
        kind, kept = "i", np.asarray(values)
        if kept.dtype.kind == "f":
            floats = kept.astype(np.float32)
            floats[~np.isfinite(floats)] = np.nan
            kind, kept = "f", floats.view(np.int32)
        elif sorted_:
            kind, kept = "d", np.diff(kept, prepend=0)
        self._columns.append((name, kind, len(kept), _planes(kept)))

    def strings(self, name: str, values: pa.Array | pa.ChunkedArray) -> None:
        """Add strings; null becomes the empty string."""
        filled = pc.fill_null(values, "")
        length = _planes(np.asarray(pc.binary_length(filled)))
        self._columns.append((name, "s", len(filled), length + "\0".join(filled.to_pylist()).encode()))

    def codes(self, name: str, values: pa.ChunkedArray) -> None:
        """Add strings as codes, -1 for null, and under ``name.words`` the distinct strings."""
        coded = values.combine_chunks().dictionary_encode()
        self.numbers(name, pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False))
        self.strings(f"{name}.words", coded.dictionary)

    def packed(self, **head: Any) -> bytes:
        """Return all columns with a header; equal columns give equal bytes."""
        header = json.dumps({**head, "columns": [column[:3] for column in self._columns]}, ensure_ascii=True).encode()
        return b"".join([len(header).to_bytes(4, "little"), header, *(column[3] for column in self._columns)])


def _planes(values: npt.NDArray[Any]) -> bytes:
    return values.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()


class _Entities:
    """The entities that the page names: links, and the nearest candidates."""

    def __init__(self, run: Run, others: pa.Array | None = None) -> None:
        links = run.link_table
        columns = (links[name].combine_chunks() for name in ("candidates", "candidate_scores"))
        lists, scores = (pc.list_slice(column, 0, _CANDIDATES) for column in columns)
        self.shown, self.candidates, self.scores = np.diff(lists.offsets), lists.flatten(), scores.flatten()
        linked = run.cluster_table["entity_id"].drop_null().combine_chunks()
        more = [] if others is None else [others.drop_null().cast(linked.type)]
        self.ids = pc.unique(pa.concat_arrays([linked, self.candidates.cast(linked.type), *more]))
        self.n_linked = len(linked)

    def rows(self, ids: pa.Array | pa.ChunkedArray) -> Ints:
        """Return the number on the page of each entity; -1 for null."""
        return np.asarray(pc.fill_null(pc.index_in(ids, self.ids, skip_nulls=True), -1).to_numpy(), np.int64)


def _add_mentions(columns: Columns, run: Run, has_texts: bool) -> None:
    mentions = run.mention_table
    columns.strings("mention", mentions["mention_id"])
    columns.strings("document", run.document_table["document_id"])
    columns.numbers("of", run.document_rows, sorted_=True)
    spans = mentions["spans"].combine_chunks()
    flat = spans.flatten()
    start, end = (flat.field(end).to_numpy().astype(np.int64) for end in ("start", "end"))
    columns.numbers("spans", pc.list_value_length(spans).to_numpy())
    columns.numbers("start", start, sorted_=True)
    columns.numbers("length", end - start)
    columns.codes("text", mentions["text"])
    expansion = mentions["expansion"]  # words from elsewhere in the document
    columns.codes("expansion", expansion if has_texts else pa.chunked_array([pa.nulls(len(expansion), pa.string())]))
    columns.codes("type", mentions["type"])
    gold = mentions["gold"].combine_chunks()
    if gold.null_count < len(gold):
        columns.numbers("golds", pc.fill_null(pc.list_value_length(gold), -1).to_numpy())
        columns.codes("gold", pa.chunked_array([gold.flatten()]))
    if has_texts:
        rows = np.arange(len(mentions))
        begin, stop = np.hstack([np.empty((2, 0), np.int64), *(ends for ends, *_ in sentence_blocks(run, rows))])
        first, last = ends_of(run, rows)
        columns.numbers("before", first - begin)
        columns.numbers("after", stop - last)


def _link_columns(run: Run) -> list[str]:
    """Return the names of the columns of links that rows of mentions have on the page."""
    flat = (name for name, column in SCHEMA["links"].items() if column.flat and name not in _ELSEWHERE)
    return [name for name in flat if name in run.link_table.column_names]


def _add_links(columns: Columns, run: Run, known: _Entities) -> None:
    """Add the decisions, and the nearest candidates, which are kept once for equal lists."""
    links = run.link_table
    columns.numbers("cluster", run.cluster_rows)
    for name in _link_columns(run):
        add = columns.codes if SCHEMA["links"][name].type == pa.string() else columns.numbers
        add(name, links[name])
    is_there = np.arange(_CANDIDATES) < known.shown[:, None]
    table = np.full((len(is_there), 2 * _CANDIDATES), -1, np.int32)  # ids, then the bits of scores
    table[:, :_CANDIDATES][is_there] = known.rows(known.candidates)
    table[:, _CANDIDATES:][is_there] = known.scores.to_numpy().astype(np.float32).view(np.int32)
    rows = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8 * _CANDIDATES), len(table), [None, pa.py_buffer(table)])
    coded = rows.dictionary_encode()
    lists = np.frombuffer(b"".join(coded.dictionary.to_pylist()), np.int32).reshape(-1, 2 * _CANDIDATES)
    columns.numbers("near", coded.indices)
    for rank in range(_CANDIDATES):
        columns.numbers(f"near{rank}", lists[:, rank])
        columns.numbers(f"near{rank}.score", lists[:, _CANDIDATES + rank].copy().view(np.float32))


def _add_names(columns: Columns, run: Run, known: _Entities) -> None:
    """Add the clusters and the entities; entities come in the order of their clusters, then candidates."""
    clusters = run.cluster_table
    new = clusters.filter(clusters["entity_id"].is_null())
    columns.strings("discovered", new["cluster_id"])
    columns.strings("discovered.name", new["name"])
    table = run.entity_table
    place = pc.index_in(known.ids, table["entity_id"].combine_chunks())
    columns.strings("entity", known.ids)
    columns.strings("entity.name", table["name"].take(place))
    aliases = table["aliases"].take(place.slice(0, known.n_linked)).combine_chunks()
    columns.numbers("aliases.all", pc.fill_null(pc.list_value_length(aliases), 0))
    columns.strings("alias", pc.list_slice(aliases, 0, _ALIASES).flatten())


def _histogram(run: Run) -> dict[str, list[Any]]:
    """Count, in equal ranges, the dissimilarities of the nearest entities and of the steps between mentions."""
    links = run.link_table
    dissimilarities = {
        "entity": run.manifest["offset"] - best_scores(run),
        "mention": links["step"].filter(links["parent_is_mention"]).to_numpy(),
    }
    dissimilarities = {name: values[np.isfinite(values.astype(np.float64))] for name, values in dissimilarities.items()}
    every = np.concatenate([*dissimilarities.values()])
    if not len(every):
        return {"bounds": [], "entity": [], "mention": []}
    bounds: npt.NDArray[np.float64] = np.histogram_bin_edges(every, _BINS)
    counts = {name: np.histogram(values, bounds)[0].tolist() for name, values in dissimilarities.items()}
    return {"bounds": bounds.tolist(), **counts}
