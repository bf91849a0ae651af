"""The page of a run in a browser: its counts, its views and addresses, its keys, and names that mean harm."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from browser import Browser
from builders import document, linker, passage
from conftest import Sample

import arbo
from arbo.data.documents import text_of
from arbo.explore.cuts import cuts_of
from arbo.explore.report import report
from arbo.results.views import cluster_view, mention_view, selected, wrong_kinds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def result(sample: Sample) -> arbo.Result:
    """Link the sample by a threshold that leaves many mentions NIL."""
    documents, kb = sample
    return linker(kb, entity_threshold=0.35).link(documents)


@pytest.fixture(scope="module")
def file(result: arbo.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "run.html"
    report(result, path, name="sample")
    return path


@pytest.fixture
def opened(browser: Browser, file: Path) -> Browser:
    browser.open(file)
    return browser


def ask(browser: Browser, name: str, *given: Any) -> Any:
    """Ask the page for a view, as its console does."""
    return browser.run(f"arbo.{name}({', '.join(map(json.dumps, given))})")


def show(browser: Browser, result: arbo.Result, folder: Path, place: str = "", **how: Any) -> None:
    """Open the page of a run."""
    report(result, folder / "page.html", **how)
    browser.requests.clear()
    browser.messages.clear()
    browser.open(folder / "page.html", place)


def alike(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a row of the page has the values of a row of a table."""
    return all(wanted[name] == value for name, value in row.items() if name in wanted)


def address(*words: str) -> str:
    return "#/" + "/".join(quote(word, safe="") for word in words)


def test_a_table_has_the_shares_of_each_level_of_its_columns(browser: Browser, tmp_path: Path) -> None:
    table = [{"id": str(i), "name": f"Kelp {i % 3} Ltd", "city": f"Oslo {i % 2}"} for i in range(8)]
    result = arbo.Linker().discover(table, name="name", evidence=["city"])
    show(browser, result, tmp_path)
    rows = "[...document.querySelectorAll('.bars tr')]"
    cells = browser.run(f"{rows}.map(one => [one.innerText, one.querySelectorAll('.fill').length])")
    ((city,), shown) = result.evidence, [words.split()[0] for words, n in cells if n == 2]
    assert shown == [level.split()[0] for level in city["levels"]]


def test_counts_are_those_of_the_tables(opened: Browser, result: arbo.Result) -> None:
    tiles = opened.run("[...document.querySelectorAll('.tile strong')].map(one => one.innerText)")
    assert tiles == ["442", "142", "118", str(len(result.discovered))]
    rows = "[...document.querySelectorAll('.scores tbody tr')]"
    opened.run("document.querySelector('details').open = true")
    scores = opened.run(f"{rows}.map(row => [...row.cells].slice(0, 3).map(cell => cell.innerText.trim()))")
    (entries,) = result.evaluate().report("run").systems.values()
    ends = {name: entry.interval for name, entry in entries.items()}
    assert [row[0] for row in scores[:3]] == ["accuracy with NIL", "accuracy", "ARI"]
    assert sorted(scores) == sorted(
        [name, f"{entry.score.value:.3f}", " – ".join(f"{end:.3f}" for end in ends[name] or ()) or "–"]
        for name, entry in entries.items()
    )


def test_wrong_decisions_are_listed_by_reason(opened: Browser, result: arbo.Result) -> None:
    kinds = wrong_kinds(result)
    wrong = mention_view(result, np.flatnonzero(kinds >= 0), kinds).to_pylist()
    rows = ask(opened, "mentions", {"wrong": True, "limit": 500})["rows"]
    assert {row["mention_id"]: row["verdict"] for row in rows} == {row["mention_id"]: row["wrong"] for row in wrong}
    number = Counter(row["wrong"] for row in wrong).most_common()
    assert [row["verdict"] for row in rows] == [kind for kind, size in number for _ in range(size)]
    opened.go(address("mentions", number[-1][0]))
    opened.until("document.querySelector('.item .wrong') !== null")
    assert f"{number[-1][0]} {number[-1][1]}" in opened.text(".choice[aria-label=Why]")
    titles = [row["title"] for row in ask(opened, "documents", {"sort": "doubt", "limit": 500})["rows"]]
    assert titles[0] in str(result.texts(np.arange(len(titles))))


@pytest.mark.parametrize("nil", [False, True])
@pytest.mark.parametrize("by", ["order", "doubt"])
def test_mentions_are_those_of_show(opened: Browser, result: arbo.Result, nil: bool, by: str) -> None:
    rows = selected(result, nil=nil, doubtful=by == "doubt")
    wanted = mention_view(result, rows).to_pylist()
    asked = {"nil": nil, "sort": by, "limit": 70}
    pages = [ask(opened, "mentions", asked | {"offset": at}) for at in range(0, len(rows), 70)]
    shown = [row for page in pages for row in page["rows"]]
    assert {page["total"] for page in pages} == {len(rows)} == {len(shown)}
    assert all(map(alike, shown, wanted))
    assert wanted[0].keys() - shown[0].keys() <= {"expansion", "domain"}
    for row in shown:
        text, own = result.text_of(row["document_id"]) or "", row["sentence"]
        assert "".join(own["pieces"]) == text[row["start"] : row["end"]]
        assert own["before"] + "".join(own["pieces"]) + own["after"] in text


@pytest.mark.parametrize("words", ["PETREL", "fever", "no such words", "D06-3", "D06"])
def test_a_search_finds_what_show_finds(opened: Browser, result: arbo.Result, words: str) -> None:
    found = ask(opened, "search", words)
    wanted = [result.links[row].mention.id for row in selected(result, words=words)]
    named = [words] if words in result.row_of else []
    assert [row["mention_id"] for row in found["mentions"]] == [*named, *wanted][:20]
    clusters = [one.id for one in result.clusters if words.lower() in one.name.lower()]
    assert [row["cluster_id"] for row in found["clusters"]] == clusters[:20]
    assert [row["document_id"] for row in found["documents"]] == ([words] if words == "D06" else [])


def test_mentions_clusters_and_documents_are_those_of_the_tables(opened: Browser, result: arbo.Result) -> None:
    every = {row["cluster_id"]: row for row in cluster_view(result, np.arange(len(result.clusters))).to_pylist()}
    for nil in (False, True):
        for order, key in (("size", lambda row: -row["size"]), ("name", lambda row: row["name"].lower())):
            rows = ask(opened, "clusters", {"nil": nil, "sort": order, "limit": 500})["rows"]
            assert len(rows) == len(result.discovered if nil else every) - (0 if nil else len(result.discovered))
            assert all(alike(row, every[row["cluster_id"]]) for row in rows)
            assert rows == sorted(rows, key=key)
    link = next(link for link in result.links if link.entity is not None)
    values = {"document": link.mention.document_id, "entity": link.entity, "cluster": result.discovered[0].id}
    for name, value in values.items():
        wanted = [at.mention.id for at in result.links if value in (at.mention.document_id, at.entity, at.cluster)]
        found = ask(opened, "mentions", {name: value, "limit": 500})
        assert [row["mention_id"] for row in found["rows"]] == wanted
    told = ask(opened, "document", "D01")
    own = [link.mention for link in result.links if link.mention.document_id == "D01"]
    assert told["text"] == result.text_of("D01")
    assert [row["spans"] for row in told["mentions"]] == [[list(span) for span in mention.spans] for mention in own]
    (row,) = ask(opened, "documents", {"limit": 1})["rows"]
    assert (row["mentions"], row["nil"]) == (len(own), sum(result.link_of(one.id).entity is None for one in own))


def test_a_new_entity_is_near_the_best_candidate_of_its_mentions(opened: Browser, result: arbo.Result) -> None:
    rows = ask(opened, "clusters", {"nil": True, "sort": "nearness", "limit": 500})["rows"]
    assert 0 < len(rows) == len(result.discovered)
    for row in rows:
        links = [result.link_of(mention.id) for mention in result.cluster_of(row["cluster_id"][4:]).mentions]
        best = max((link.candidates[0] for link in links), key=lambda one: one[1])
        assert row["nearest"]["dissimilarity"] == pytest.approx(1 - best[1])
        assert result.names_of(row["nearest"]["entity_id"])[0] == row["nearest"]["name"]
    distances = [row["nearest"]["dissimilarity"] for row in rows]
    assert distances == sorted(distances)


def test_a_cluster_is_a_tree(opened: Browser, result: arbo.Result) -> None:
    for own in result.clusters:
        told = ask(opened, "cluster", own.id)
        members = {row["mention_id"]: row for row in told["members"]}
        assert members.keys() == {mention.id for mention in own.mentions}
        seen: set[str | None] = {own.entity}
        for id_, row in members.items():
            assert row["parent"] in seen, "a parent comes before what hangs on it"
            seen.add(id_)
            if own.entity is not None:
                link = result.link_of(id_)
                assert (row["parent"], row["step"]) == (link.parent, link.step)
        steps = [row["step"] for row in members.values() if row["step"] is not None]
        inner = [row["step"] for row in members.values() if row["parent_is_mention"] and row["step"] is not None]
        heavy = sorted((step for step in inner if step > 0), reverse=True)
        assert [members[id_]["step"] for id_ in told["weakest"]] == heavy[:5]
        if own.entity is None and len(own.mentions) > 1:
            assert len(steps) == len(own.mentions) - 1
            assert max(steps) == pytest.approx(own.weakest_join)
        assert [bridge["mention_id"] for bridge in told["bridges"]] == bridges_of(members, result)
        for bridge in told["bridges"]:
            hanging = {bridge["mention_id"]}
            for id_, row in members.items():
                hanging |= {id_} if row["parent"] in hanging else set()
            assert bridge["below"] == len(hanging) == ask(opened, "mention", bridge["mention_id"])["below"] + 1


def bridges_of(members: dict[str, Any], result: arbo.Result) -> list[str]:
    """Name the mentions whose steps join the largest parts, if steps come from the lightest to the heaviest."""
    parts, joins = {id_: {id_} for id_ in members}, dict[str, int]()
    weight = {id_: -1 if row["step"] is None else row["step"] for id_, row in members.items()}
    inner = {id_: row["parent"] for id_, row in members.items() if row["parent_is_mention"]}
    for id_ in sorted(inner, key=lambda id_: (weight[id_], result.row_of[inner[id_]], result.row_of[id_])):
        one, other = parts[id_], parts[inner[id_]]
        joins[id_] = min(len(one), len(other))
        parts |= dict.fromkeys(one | other, one | other)
    large = [id_ for id_ in inner if joins[id_] > 1 and weight[id_] > 0]
    return sorted(large, key=lambda id_: (-joins[id_], -weight[id_]))[:3]


def test_without_lists_a_new_entity_has_no_tree(browser: Browser, result: arbo.Result, tmp_path: Path) -> None:
    show(browser, replace(result, arrays=dict), tmp_path, "#/threshold", texts=False)
    assert "does not keep its graph" in browser.text()
    told = ask(browser, "cluster", result.discovered[0].id)
    assert {(row["parent"], row["step"]) for row in told["members"]} == {(None, None)}
    assert ask(browser, "mentions", {"limit": 1})["rows"][0]["sentence"] is None
    assert ask(browser, "document", "D01")["text"] is None


def test_every_mention_has_its_explanation(opened: Browser, result: arbo.Result) -> None:
    for row in range(0, 584, 41):
        link = result.links[row]
        opened.go(address("mention", link.mention.id))
        steps = opened.run("[...document.querySelectorAll('.path li > a')].map(one => one.innerText)")
        why, asked = result.explain(link), ask(opened, "mention", link.mention.id)
        told, path = opened.text(), [(one["id"], one["step"]) for one in asked["path"]]
        assert [(one["entity_id"], one["score"]) for one in asked["candidates"]] == list(link.candidates[:4])
        assert (asked["nil_reason"] is None) == (link.entity is not None)
        if link.entity is None:
            assert "NIL, in" in told
            assert {result.link_of(one).cluster for one, _ in path} == {link.cluster}
            assert f"{1 - why.rivals[0].score:.3f}; the entity threshold is 0.350" in told
        else:
            assert path == [(one.id, one.dissimilarity) for one in why.path]
            assert steps == [why.path[0].name, *(result.link_of(step.id).mention.text for step in why.path[1:])]
            shown = opened.run("[...document.querySelectorAll('.path .weight')].map(one => one.innerText.slice(0, 5))")
            assert shown == [f"{step.dissimilarity:.3f}" for step in why.path[1:]]
            assert f"score\n{link.score:.3f}" in told or f"score{link.score:.3f}" in told
        for rival in why.rivals:
            assert f"{rival.score:.3f}" in told


@pytest.mark.parametrize("kind", ["entity", "mention"])
def test_a_moved_threshold_counts_as_the_engine_does(opened: Browser, result: arbo.Result, kind: str) -> None:
    cuts = cuts_of(result)
    opened.go("#/threshold")
    for place, value in enumerate(cuts.values[kind]):
        found = cuts.at(**{"entity": 0.35, "mention": 0.2, kind: value})
        moved = f"s.value = {place}; s.dispatchEvent(new Event('input'));"
        opened.run(f"(() => {{ const s = document.querySelector('#cut-{kind}'); {moved} }})()")
        own = "[...document.querySelectorAll('.cut .tile strong')].map(one => one.innerText)"
        linked = int((found.entity >= 0).sum())
        clusters = len(np.unique(found.labels[found.n_entities :]))
        shown = opened.run(f"new Promise(done => setTimeout(() => done({own}), 0))")
        assert shown == [str(linked), str(584 - linked), str(clusters)]
        assert f"{value:.3f}" in opened.run("decodeURIComponent(location.hash)")
    opened.go("#/threshold/0.1/0.1")
    assert opened.text("#cut-mention + output") == "0.200 (the run)"  # one moves at a time
    opened.press_at("#cut-mention", "ArrowLeft")
    outputs = "[...document.querySelectorAll('.sliders output')]"
    told = opened.run(f"{outputs}.map(one => one.textContent)")
    assert [text.endswith("(the run)") for text in told] == [True, False]
    opened.run("document.querySelector('.note a').click()")
    opened.until(f"{outputs}.every(one => one.textContent.endsWith('(the run)'))")
    opened.run("window.stays = 1")
    opened.go("#/threshold/0.6/0.2")
    assert opened.run("window.stays") == 1
    assert opened.text("#cut-entity + output") == "0.600"
    first = opened.text(".change")
    assert [word for word in first.split("\n") if word][:2] == ["joins", "Fenn Water"]
    assert "Dr Fenn" in first


def test_every_view_has_an_address(opened: Browser, result: arbo.Result, file: Path) -> None:
    cluster = result.discovered[0]
    views = {
        address("cluster", cluster.id): cluster.name,
        address("entity", "SP:0001"): "dusk petrel",
        address("document", "D06"): "D06",
        address("document", "D06", "D06-3"): "sorrel root rot",
        address("search", "fenn water"): "Fenn Water diving beetle",
        "#/nil/nearness": "New entities",
        "#/clusters": "118 entities",
        "#/mentions/nil": "142 mentions",
        "#/documents": "90 documents",
        "#/threshold/0.6/0.2": "Thresholds",
        "#/nowhere": "no view",
        address("mention", "nobody"): "no mention “nobody”",
        "#/%E0%A4%A": "no view",
    }
    for place, words in views.items():
        opened.go(place)
        opened.until(f"document.querySelector('main').innerText.includes({json.dumps(words)})")
    browser = opened
    browser.requests.clear()
    browser.open(file, address("document", "D06", "D06-3"))
    assert browser.text(".chosen") == "sorrel root rot"
    assert {*browser.requests} - {"about:blank"} == {file.resolve().as_uri()}
    assert browser.messages == []


def test_a_bridge_of_a_large_cluster_is_found_beyond_the_tree_shown(browser: Browser, tmp_path: Path) -> None:
    names = ["marsh root fever"] * 600 + ["marsh root fever of hens"] * 40
    documents = [document(f"d{i:03}", name) for i, name in enumerate(names)]
    found = linker(None, mention_threshold=0.9, k=640).discover(documents)
    (cluster,) = found.discovered
    show(browser, found, tmp_path, address("cluster", cluster.id))
    words = browser.text(".rows").split("\n")
    assert {"marsh root fever", "marsh root fever of hens"} <= set(words)
    assert {f"{cluster.weakest_join:.3f}", "40 mentions below"} <= set(words)
    assert browser.run("document.querySelectorAll('.tree .row').length") == 500
    assert "All 640 mentions" in browser.text()


def test_a_document_shows_overlaps_gaps_and_letters_beyond_the_basic_plane(browser: Browser, tmp_path: Path) -> None:
    text = "𝄞𝄞 heart and lung cancer 𝄞 left"
    at = text.index("heart")
    spans = {"gap": ((at, at + 5), (at + 15, at + 21)), "all": ((at, at + 21),), "lung": ((at + 10, at + 21),)}
    mentions = tuple(arbo.Mention(id_, "d", own, text_of(own, text)) for id_, own in spans.items())
    found = linker(None).discover([arbo.Document("d", text, mentions)])
    show(browser, found, tmp_path, "#/document/d")
    assert browser.run("document.querySelector('.text').textContent") == text
    hits = "[...document.querySelectorAll('.text .hit')]"
    pieces = browser.run(f"{hits}.map(one => [one.textContent, ...one.dataset.mention.split(' ').sort()].join())")
    assert pieces == ["heart,all,gap", " and ,all", "lung ,all,lung", "cancer,all,gap,lung"]
    browser.run("document.querySelector('.text .hit').focus()")
    assert browser.run("document.querySelectorAll('.hit.on').length") == 4
    assert browser.text(".legend") == "NIL"
    browser.go("#/mention/lung")
    assert browser.text("blockquote mark") == "lung cancer"
    browser.go("#/mention/gap")
    marked = browser.run("[...document.querySelectorAll('blockquote mark')].map(one => one.textContent)")
    assert (marked, browser.text("blockquote")) == (["heart", "cancer"], "𝄞𝄞 heart and lung cancer 𝄞 left")
    text = "A heart and lung cancer."
    spans = {"gap": [(17, 23), (2, 7)], "one": [(2, 7), (4, 11), (11, 16)]}
    mentions = tuple(arbo.Mention(id_, "d", tuple(own), text_of(own, text)) for id_, own in spans.items())
    show(browser, arbo.Linker().discover([arbo.Document("d", text, mentions)]), tmp_path)
    rows = {row["mention_id"]: row["sentence"] for row in ask(browser, "mentions", {})["rows"]}
    assert rows["gap"] == {"before": "A ", "pieces": ["heart", " and lung ", "cancer"], "after": "."}
    assert rows["one"] == {"before": "A ", "pieces": ["heart and lung"], "after": " cancer."}


def test_keys_reach_everything(opened: Browser) -> None:
    opened.go("#/mentions")
    opened.until("document.querySelector('.list a') !== null")
    opened.press("ArrowDown")
    first = opened.run("document.activeElement.getAttribute('href')")
    for _ in range(3):
        opened.press("ArrowDown")
        opened.run("new Promise(done => setTimeout(done, 30))")
    assert first.startswith("#/mention/")
    fourth = opened.run("document.activeElement.closest('.item').getAttribute('aria-posinset')")
    assert fourth == "4"
    opened.press("Enter")
    opened.until("document.querySelector('[data-view=mention]') !== null")
    opened.press("Escape")
    opened.until("document.querySelector('[data-view=mentions]') !== null")
    opened.press("/")
    assert opened.run("document.activeElement.type") == "search"
    opened.call("Input.insertText", text="fenn")
    opened.press("Enter")
    opened.until("document.querySelector('[data-view=search]') !== null")
    assert opened.run("location.hash") == "#/search/fenn"


def test_roles_contrast_and_width_serve_everybody(opened: Browser) -> None:
    contrast = """(() => {
      const light = (text) => text.match(/[0-9.]+/g).slice(0, 3).map((x) => x / 255)
        .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
        .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (one) => { while (one) { const c = getComputedStyle(one).backgroundColor;
        if (!c.endsWith(", 0)") && c !== "transparent") return c; one = one.parentElement; } return "rgb(0,0,0)"; };
      return [...document.querySelectorAll("body *")].filter((one) => [...one.childNodes].some((node) =>
        node.nodeType === 3 && node.data.trim()) && one.checkVisibility() && !(one instanceof SVGElement)
        && one.matches(":not(.skip)"))
        .map((one) => { const [a, b] = [light(getComputedStyle(one).color), light(ground(one))];
          return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.className, one.textContent.slice(0, 20)]; })
        .filter(([ratio]) => ratio < 4.5);
    })()"""
    places = ["#/", "#/nil", "#/nil/nearness", "#/clusters", "#/mention/D06-3", "#/mention/D05-4", "#/document/D06"]
    for dark, width in ((False, 1200), (True, 1200), (False, 390)):
        opened.look(dark=dark, width=width)
        for place in [*places, "#/threshold/0.1/0.2", "#/threshold/0.6/0.2"]:
            opened.go(place)
            assert opened.run("document.documentElement.scrollWidth") == width, place
            opened.run("Promise.all(document.getAnimations().map((one) => one.finished)).then(() => true)")
            assert opened.run(contrast) == [], (dark, place)
            assert opened.run("document.querySelectorAll('main').length") == 1
            assert opened.run("document.querySelectorAll('h1').length") == 1
            fields = "[...document.querySelectorAll('button, input')]"
            assert opened.run(f"{fields}.every(one => one.innerText || one.labels?.length || one.ariaLabel)")
    opened.look()


MARKS = [
    *("<script>window.harm = 1</script>", "<img src=x onerror='window.harm = 1'>", "<!-- <script>", "]]><!--"),
    *("</script><script>window.harm = 1</script>", "<iframe src=https://example.org/>", "line\u2028separator\u2029"),
    *('"><svg onload=window.harm=1>', "javascript:window.harm=1", "'; window.harm = 1; '", "${window.harm = 1}"),
    *("<link rel=stylesheet href=https://example.org/a.css>", "{{constructor.constructor('window.harm=1')()}}"),
    *("\u200b\u200c\u200d zero width \ufeff", "\u202eright to left\u202c", "עברית ו-عربي", "#/../%2e%2e/%"),
    *("__proto__", "constructor", "a/b?c#d&e=f"),
]


def test_hostile_names_are_text_and_nothing_is_asked_for(browser: Browser, tmp_path: Path) -> None:
    names = [f"{mark} {i}" if i else mark for i in range(10) for mark in MARKS]
    assert len(names) == 200
    names[3] = "x<script>window.harm=1</script>" * 4000
    documents = [replace(passage(f"{name} doc", f"before {name} after", name), domain=None) for name in names[4:60]]
    documents += [document(f"d{i}", name) for i, name in enumerate(names)]
    kb = arbo.KnowledgeBase.of([{"id": f"{name} id", "name": name, "aliases": [f"{name}!"]} for name in names[:100]])
    found = linker(kb).link(documents)
    show(browser, found, tmp_path, name="<script>window.harm = 1</script>")
    elements = "document.querySelectorAll('img, iframe, svg[onload], link[rel=stylesheet], main script').length"
    for link in found.links[::13]:  # each of the marks
        places = [("mention", link.mention.id), ("document", link.mention.document_id), ("cluster", link.cluster)]
        for place in places + ([("entity", link.entity)] if link.entity else []):
            browser.go(address(*place))
            assert browser.run(elements) == 0
            assert "Not found" not in browser.text("h1"), place
            assert browser.run("document.documentElement.scrollWidth") <= 1200
        browser.go(address("mention", link.mention.id))
        shown = browser.run("document.querySelector('h1 bdi').textContent")
        assert shown == (link.mention.text if len(link.mention.text) <= 160 else link.mention.text[:160] + "…")
    for place in ("#/", "#/nil", "#/clusters/name", "#/mentions", "#/documents", address("search", "<script>")):
        browser.go(place)
        assert browser.run(elements) == 0
    assert browser.run("window.harm") is None
    assert browser.messages == []
    assert set(browser.requests) == {(tmp_path / "page.html").resolve().as_uri()}
    assert browser.run("fetch('https://example.org/').then(() => 'asked', () => 'blocked')") == "blocked"


@pytest.mark.parametrize("n", [0, 1])
def test_a_run_of_no_or_one_mention_has_all_views(browser: Browser, tmp_path: Path, n: int) -> None:
    found = linker(None).discover([document("only", *["thing"] * n), document("empty")])
    show(browser, found, tmp_path)
    for place in ("", "clusters", "nil", "mentions/nil", "documents", "document/empty", "threshold", "search/x"):
        browser.go(f"#/{place}")
        assert "Not found" not in browser.text(), place
    assert browser.messages == []
