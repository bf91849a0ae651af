"""`arbo explore --out` without a browser: what a page holds, that it equals the tables, and what a page may do."""

import gzip
import hashlib
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from builders import document, linker, sample_edges
from conftest import Run, Sample
from rerankers import Oracle

import arbo
from arbo.explore.cuts import cuts_of, trees
from arbo.explore.report import Columns, Payload, report
from clustering.methods import METHODS


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read packed columns: the header, and the values by name, as `static/columns.js` does."""
    size = int.from_bytes(data[:4], "little")
    head, at, columns = json.loads(data[4 : 4 + size]), 4 + size, {}
    for name, kind, n in head["columns"]:
        values = np.frombuffer(data, np.uint8, 4 * n, at).reshape(4, n).T.copy().view("<i4").ravel()
        at += 4 * n
        if kind == "f":
            columns[name] = values.view("<f4")
        elif kind == "s":
            ends = np.concatenate([[0], np.cumsum(values + 1)]) + at
            columns[name] = [data[a : b - 1].decode() for a, b in pairwise(ends)]
            at = max(at, int(ends[-1]) - 1)
        else:
            columns[name] = np.cumsum(values) if kind == "d" else values
    assert at == len(data)
    return head, columns


@pytest.fixture(scope="module")
def content(result: arbo.Result) -> tuple[dict[str, Any], dict[str, Any]]:
    payload = Payload(result, "sample")
    return payload.overview, unpacked(payload.tables)[1]


def clusters_of(labels: Any) -> set[frozenset[int]]:
    """Return the rows of each cluster."""
    return {frozenset(np.flatnonzero(np.asarray(labels) == one).tolist()) for one in np.unique(labels)}


def test_columns_are_those_of_the_tables_and_exports(result: arbo.Result, content: tuple[Any, Any]) -> None:
    head, columns = content
    links, mentions = result.link_table, result.mention_table
    assert columns["mention"] == mentions["mention_id"].to_pylist()
    assert [columns["document"][row] for row in columns["of"]] == mentions["document_id"].to_pylist()
    assert [columns["text.words"][code] for code in columns["text"]] == mentions["text"].to_pylist()
    assert [value if value == value else None for value in columns["margin"].tolist()] == links["margin"].to_pylist()
    known = head["clusters"] - head["discovered"]
    ids = columns["entity"][:known] + columns["discovered"]
    assert [ids[row] for row in columns["cluster"]] == links["cluster_id"].to_pylist()
    near = columns["near0"][columns["near"]]
    assert [columns["entity"][row] for row in near] == [own[0] for own in links["candidates"].to_pylist()]
    assert (head["name"], head["mentions"], head["linked"], head["nil"]) == ("sample", 584, 485, 99)
    assert (head["clusters"], head["discovered"]) == (len(result.clusters), len(result.discovered))
    assert sum(size * count for size, count in head["sizes"]) == sum(head["histogram"]["entity"]) == 584
    _, columns = content
    first = np.concatenate([[0], np.cumsum(columns["spans"])])[:-1]
    start = columns["start"][first]
    frame = result.to_pandas()
    for row in range(0, len(frame), 7):
        text = result.text_of(frame["document_id"][row])
        stop = frame["end"][row] + columns["after"][row]
        assert text[start[row] - columns["before"][row] : stop] == frame["sentence"][row]


def test_gold_entities_have_the_knowledge_bases_own_ids() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "flu"), arbo.Entity("E2", "kelp", alternative_ids=("X:2",))])
    found = linker(kb).link([document("d", ("flu", ["X:2"]), ("kelp", ["Y:3"]), ("flu", []))])
    columns = unpacked(Payload(found, "run").tables)[1]
    assert [columns["meant.words"][code] if code >= 0 else None for code in columns["meant"]] == ["E2", "Y:3", None]


READER = Oracle(lambda item, entity: 8 * (item.name == entity.name) + crc32((item.name + entity.name).encode()) % 9)
CORRECTIONS = [{"mention": "D06-3", "entity": None}, {"mention": "D01-1", "not": "SP:0001"}]
CORRECTIONS += [{"mention": "D02-1", "new": "a thing"}, {"same": ["D03-0", "D04-0"]}]


@pytest.mark.parametrize(
    ("settings", "models", "corrections"),
    [
        *(({"method": method}, {}, []) for method in METHODS),
        ({"nil_linkage": "average", "nil_threshold": 0.3}, {}, []),
        ({}, {"edges": sample_edges}, []),
        ({}, {"reranker": lambda: READER}, []),
        # Which mentions are sure of their entity depends on the thresholds of the run, and stays in its cuts.
        ({"spread": "same-name"}, {}, CORRECTIONS),
        ({"method": "minimax", "spread": "graph"}, {"edges": sample_edges}, CORRECTIONS),
    ],
    ids=[*METHODS, "average", "edges", "reranker", "corrections", "both"],
)
def test_cuts_are_the_links_at_these_thresholds(sample: Sample, settings: Any, models: Any, corrections: Any) -> None:
    documents, kb = sample
    own = arbo.Linker(
        kb, config=replace(arbo.LinkerConfig(), **settings), **{name: of() for name, of in models.items()}
    )
    result = own.link(documents, corrections)
    cuts = cuts_of(result)

    def check(root: Any, **thresholds: float) -> None:
        config = replace(own.config, **{f"{kind}_threshold": value for kind, value in thresholds.items()})
        anew = own.configured(config=config).link(documents, corrections)
        assert clusters_of(root) == clusters_of(anew.link_table["cluster_id"].to_numpy()), thresholds
        entity = cuts.entities.take(pa.array(root, mask=root < 0))
        assert entity.to_pylist() == anew.link_table["entity_id"].to_pylist()

    head, columns = unpacked(Payload(result, "run").cuts)
    assert head["cuts"] == cuts.values
    roots: dict[Any, Any] = {cuts.home: cuts.roots(cuts.base)}
    for place, earlier, rows, new in cuts.differences():
        roots[place] = roots[earlier].copy()
        roots[place][rows] = new
    n = {kind: len(values) for kind, values in cuts.values.items()}
    assert max(n.values()) <= 33
    assert len(roots) == len(head["points"]) == len(columns["count"]) == sum(n.values()) - 1
    entity, mention = cuts.home
    for place in ((0, mention), (5, mention), (n["entity"] - 1, mention), (entity, 0), (entity, n["mention"] - 1)):
        limits = {kind: cuts.values[kind][at] for kind, at in zip(n, place, strict=True)}
        check(roots[place], **limits)


def test_no_threshold_lies_beyond_what_was_listed_and_a_list_has_one(sample: Sample) -> None:
    documents, kb = sample
    for limit in (0.2, 0.1):
        cuts = cuts_of(linker(kb, mention_threshold=limit).link(documents))
        assert max(cuts.values["mention"]) == limit
    own = round(cuts.values["entity"][5] - 1e-4, 4)
    cuts = cuts_of(linker(kb, entity_threshold=own).link(documents))
    values = cuts.values["entity"]
    assert own in values
    assert len({f"{value:.3f}" for value in values}) == len(values)  # as addresses have them
    cuts = cuts_of(linker(kb, mention_threshold=None, entity_threshold=None).link(documents))
    assert cuts.values["mention"][-1] == cuts.values["entity"][-1] == float("inf")
    cuts = cuts_of(arbo.Linker().discover(["Kelp Ltd", "Kelp", "KELP Inc", "Tern Optics", "Tren Optics"]))
    assert cuts.values["mention"] == [0.85]
    for other in (0.0, 0.3, 2.0):
        assert clusters_of(cuts.roots(cuts.at(0.35, other))) == clusters_of(cuts.roots(cuts.base))


def test_discovery_alone_a_lost_graph_and_joins_of_people_have_pages(tmp_path: Path, sample: Sample) -> None:
    names = ["Quercus robur", "Quercus robur", "quercus robus", "Betula", "Betula", "Pinus"]
    result = linker(None, mention_threshold=0.9).discover([document(f"d{i}", name) for i, name in enumerate(names)])
    payload = Payload(result, "names")
    assert [payload.overview[name] for name in ("kb", "linked", "nil", "no_cuts")] == [None, 0, 6, None]
    assert unpacked(payload.tables)[1]["entity"] == []
    result.save(tmp_path / "run", texts=False)
    told = Payload(arbo.Result.load(tmp_path / "run"), "bare").overview
    assert (told["no_cuts"], told["texts"]) == (None, False)  # the graph has no texts
    assert "does not keep its graph" in str(cuts_of(replace(result, arrays=dict)))
    documents = [document("a", "zebra"), document("b", "flu")]
    ids = [one.mentions[0].id for one in documents]
    result = linker(sample[1]).link(documents, [{"same": ids}])
    parent, step = trees(result, cuts_of(result))
    assert (parent.tolist(), np.isnan(step).all()) == ([-1, 0], True)


def blocks_of(html: str) -> dict[str, bytes]:
    found = re.findall(r'<script type="application/octet-stream" id="(\w+)">([A-Za-z0-9+/=]*)</script>', html)
    return {name: gzip.decompress(b64decode(block)) for name, block in found}


def test_a_page_runs_one_script_and_asks_for_nothing(result: arbo.Result, tmp_path: Path) -> None:
    one, other = (tmp_path / f"{name}.html" for name in ("one", "other"))
    assert {report(result, file, name="<b>& run") for file in (one, other)} == {one.stat().st_size}
    html = one.read_text("utf-8")
    policy = unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1])
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    none = dict.fromkeys(("default-src", "connect-src", "base-uri", "form-action"), "'none'")
    scripts = ("script-src", "style-src")
    assert {name: rules[name] for name in rules if name not in scripts} == none | {"img-src": "data:"}
    for kind, tag in (("script-src", 'script type="module"'), ("style-src", "style")):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag.split()[0]}>", html, re.DOTALL)
        assert rules[kind] == f"'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    assert "<title>&lt;b&gt;&amp; run</title>" in html
    blocks = blocks_of(html)
    assert blocks.keys() == {"overview", "tables", "cuts", "texts"}
    assert (html.count("<script"), "innerHTML" in html) == (5, False)
    assert not re.search(r"^(import|export) ", html, re.MULTILINE)
    assert unpacked(blocks["texts"])[1]["text"] == result.document_table["text"].to_pylist()
    assert one.read_bytes() == other.read_bytes()


def test_columns_hold_what_they_are_given() -> None:
    columns = Columns()
    columns.numbers("n", [3, -1, 2**31 - 1], sorted_=False)
    columns.numbers("d", [5, 5, 900, 4], sorted_=True)
    columns.numbers("f", np.array([0.5, np.nan, np.inf, -1e30]))
    columns.strings("s", pa.array(["", "é\u2028</script>", None, "𝄞"]))
    head, found = unpacked(columns.packed(a=1))
    assert (head["a"], found["n"].tolist(), found["d"].tolist()) == (1, [3, -1, 2**31 - 1], [5, 5, 900, 4])
    assert np.isnan(found["f"]).tolist() == [False, True, True, False]
    assert found["s"] == ["", "é\u2028</script>", "", "𝄞"]


def test_the_verb_writes_a_page_also_without_texts(result: arbo.Result, tmp_path: Path, run: Run) -> None:
    result.save(tmp_path / "links")
    job, page = ["explore", tmp_path / "links", "--json", "--out"], tmp_path / "a.html"
    told = run(*job, page).json
    assert told == {"out": str(page), "mentions": 584, "bytes": page.stat().st_size, "texts": True}
    assert run(*job, page, "--no-texts").json["bytes"] < told["bytes"]
    assert run("explore", tmp_path / "links", "--out", tmp_path).code == 2
    with pytest.raises(arbo.UsageError):
        report(result, "/dev/null")
    report(result, tmp_path / "run.html", texts=False)
    blocks = blocks_of((tmp_path / "run.html").read_text("utf-8"))
    assert blocks.keys() == {"overview", "tables", "cuts"}
    assert "came alongside" in (result.text_of("D01") or "")
    assert b"came alongside" not in b"".join(blocks.values())
    assert pc.count(result.mention_table["expansion"]).as_py()
    _, columns = unpacked(blocks["tables"])
    assert (columns["expansion.words"], set(columns["expansion"])) == ([], {-1})
