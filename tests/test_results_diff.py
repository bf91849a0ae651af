"""What differs between two runs."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from builders import document, drawn_documents, linker, passage
from conftest import Run, Sample
from hypothesis import given, settings, strategies as st

import arbo
from arbo.cli.console import print_changes
from arbo.data.corpus import Corpus
from arbo.data.tables import numbered
from arbo.results.diff import Diff, diff

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight")])


def clusters(changes: Diff) -> dict[str, str]:
    return {row.cluster: row.change for row in changes.clusters}


def test_a_run_does_not_differ_from_itself(sample: Sample) -> None:
    documents, kb = sample
    result = linker(kb).link(documents)
    assert diff(result, result) == Diff((), ())


def test_new_documents_make_clusters_grow_and_bring_new_ones() -> None:
    before, after = [document("a", "marsh fever", "zzz")], [document("b", "marsh fever", "kelp blight", "yyy")]
    changes = diff(linker(KB).link(before), linker(KB).link(before + after))
    assert clusters(changes) == {"E1": "grown", "E2": "new", "new-b-2": "new"}
    assert [(row.mention, row.change, row.entity_after) for row in changes.mentions] == [
        ("b-0", "new", "E1"),
        ("b-1", "new", "E2"),
        ("b-2", "new", None),
    ]
    assert changes.mentions[0].parent is not None
    gone = diff(linker(KB).link(before + after), linker(KB).link(before))
    assert clusters(gone) == {"E1": "shrunk", "E2": "gone", "new-b-2": "gone"}
    assert Counter(row.change for row in gone.mentions) == {"gone": 3}


def test_an_entity_that_comes_or_goes_links_and_unlinks() -> None:
    documents = [document("a", "marsh fever", "kelp blight"), document("b", "kelp blight")]
    without, with_it = linker(arbo.KnowledgeBase([KB["E1"]])).link(documents), linker(KB).link(documents)
    linked, unlinked = diff(without, with_it), diff(with_it, without)
    (row,) = linked.clusters
    assert (row.cluster, row.change, row.before, row.after, row.of, row.into) == ("E2", "linked", 2, 2, (), ())
    assert [(m.mention, m.change, m.cluster_before) for m in linked.mentions] == [
        ("a-1", "linked", "new-a-1"),
        ("b-0", "linked", "new-a-1"),
    ]
    assert clusters(unlinked) == {"new-a-1": "unlinked"}
    assert {m.change for m in unlinked.mentions} == {"unlinked"}


def test_a_change_names_the_lightest_edge_that_is_new() -> None:
    before = [document("a", "marsh fever", "zzz")]
    after = [document("b", "marsh fevers", "marsh fever", "zzz")]
    own = linker(KB)
    result = own.link(before)
    edges = {row.cluster: row.edge for row in diff(result, own.add(result, after)).clusters}
    assert edges == {"E1": ("E1", "b-0", 0.0), "new-a-1": ("a-1", "b-2", 0.0)}
    assert all(row.edge is None for row in diff(own.link(before + after), result).clusters)
    (linked,) = diff(linker(arbo.KnowledgeBase([KB["E2"]])).link(before), result).clusters[:1]
    assert linked.edge == ("E1", "a-0", 0.0)
    empty = own.link([])
    assert [row.edge for row in diff(empty, result).clusters] == [("E1", "a-0", 0.0), None]
    assert diff(empty, empty) == Diff((), ())


def test_settings_that_differ_are_told() -> None:
    documents = [document("a", "marsh fever", "zzz")]
    one = linker(KB).link(documents)
    other = linker(KB, method="independent", entity_threshold=None).link(documents)
    changes = diff(one, other)
    assert changes.settings == {"method": ("arborescence", "independent"), "entity_threshold": ("default", None)}
    assert "settings: method from arborescence to independent, entity_threshold from default to None" in str(changes)
    assert json.loads(json.dumps(changes.as_dict()))["settings"]["method"] == ["arborescence", "independent"]
    assert "settings" not in diff(one, one).as_dict()
    del one.manifest["config"]["method"]  # as a run of an earlier version
    assert diff(one, linker(KB).link(documents)).settings == {}


def test_models_that_differ_inside_are_told_by_what_differs() -> None:
    one, other = (linker(KB).link([document("a", "marsh fever")]) for _ in range(2))
    for run, fingerprint in ((one, "a1"), (other, "b2")):
        run.manifest["encoder"]["edges"] = {"pairs": 600, "margins": {}, "fingerprint": fingerprint}
    assert diff(one, other).settings == {"encoder.edges.fingerprint": ("a1", "b2")}
    other.manifest["encoder"]["edges"] = None
    missing = {"encoder.edges.pairs": (600, None), "encoder.edges.margins": ({}, None)}
    assert diff(one, other).settings == {**missing, "encoder.edges.fingerprint": ("a1", None)}


def test_lines_about_spans_are_causes() -> None:
    own, documents = linker(KB), [passage("d", "The marsh fever of kelp.", "The marsh", "kelp")]
    lines = [
        {"document": "d", "spans": [[19, 23]], "drop": True},
        {"document": "d", "spans": [[0, 9]], "resize": [[4, 15]]},
        {"document": "d", "spans": [[10, 15]], "add": True},
    ]
    before = own.link(documents)
    for line in lines:
        after = own.link(documents, [line])
        for one, other in ((before, after), (after, before)):
            told = [row.correction for row in diff(one, other).clusters]
            assert json.dumps(line) in told, told
            assert json.dumps(line) in [row.cause for row in diff(one, other).mentions] or "resize" in line


def test_a_mention_names_the_correction_behind_its_change(capsys: pytest.CaptureFixture[str]) -> None:
    own, line = linker(KB), {"mention": "a-0", "entity": "E2"}
    documents = [document(name, "marsh fever") for name in "abc"]
    changes = diff(own.link(documents[:2]), own.link(documents, [line]))
    assert [(row.mention, row.change, row.cause) for row in changes.mentions] == [
        ("a-0", "moved", json.dumps(line)),
        ("b-0", "moved", json.dumps(line)),
        ("c-0", "new", None),
    ]
    assert changes.mention_view()["cause"].to_pylist() == [json.dumps(line)] * 2 + [None]
    changes = diff(own.link([document("a", "kelp blight", "zzz")]), own.link([document("b", "marsh fever")]))
    assert list(clusters(changes).values()) == ["new", "gone", "gone"]
    print_changes(changes, 2)
    assert [text.split()[0] for text in capsys.readouterr().out.splitlines()[3:5]] == ["gone", "gone"]


NAMES = ["zzz", "zzz fever", "zzz fevers", "marsh", "marshes", "yyy", "yyyy"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=12, unique=True), st.permutations(range(21)), st.booleans())
def test_a_discovered_entity_names_its_lightest_new_edge(first: list[int], order: list[int], average: bool) -> None:
    """By brute force: of all pairs in a cluster that were apart or new, the lightest within the threshold."""
    kept = {"nil_linkage": "average", "nil_threshold": 0.4} if average else {"mention_threshold": 0.4}
    own = arbo.Linker(config=arbo.LinkerConfig(k=30, **kept))
    now = [document(f"d{i:02}", NAMES[i % 7], NAMES[i * 5 % 6]) for i in order]
    b = own.discover(now)
    a = own.discover([one for i, one in zip(order, now, strict=True) if i in first])
    was = {link.mention.id: link.cluster for link in a.links}
    found = own.retrieve(Corpus.of(now), k=30, discover=True).mentions
    ids = [mention.id for one in now for mention in one.mentions]
    for row in diff(a, b).clusters:
        inside = {link.mention.id for link in b.links if link.cluster == row.cluster and row.after}
        pairs = {
            (float(weight), *sorted((ids[near], id_), key=ids.index))
            for id_, *lists in zip(ids, *found, strict=True)
            for near, weight in zip(*lists, strict=True)
            if {id_, ids[near]} <= inside and near >= 0 and (average or weight <= 0.4)
            if id_ not in was or was[id_] != was.get(ids[near])
        }
        expected = None
        if pairs:
            weight, one, other = min(pairs, key=lambda pair: (pair[0], ids.index(pair[1]), ids.index(pair[2])))
            expected = (other, one, weight) if one not in was and other in was else (one, other, weight)
        assert row.edge == expected


@settings(max_examples=40, deadline=None)
@given(drawn_documents())
def test_mentions_are_numbered_as_in_a_corpus(documents: tuple[arbo.Document, ...]) -> None:
    corpus = Corpus.of(documents)
    assert numbered(arbo.Linker().discover(corpus).mention_table).tolist() == corpus.order.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 11), max_size=4, unique=True), st.integers(0, 3), st.integers(0, 3), st.data())
def test_changes_name_corrections_and_removed_mentions(gone: list[int], n: int, m: int, data: st.DataObject) -> None:
    """By brute force, from every line and every mention."""
    documents = [document(f"d{i:02}", NAMES[i % 5]) for i in range(12)]
    some = st.integers(0, 11).map("d{:02}-0".format)
    line = st.one_of(
        st.builds(lambda id_, name: {"mention": id_, "new": name}, some, st.sampled_from("AB")),
        st.lists(some, min_size=2, max_size=2, unique=True).map(lambda ids: {"same": ids}),
        st.lists(some, min_size=2, max_size=2, unique=True).map(lambda ids: {"different": ids}),
    )
    lines = data.draw(st.lists(line, min_size=3, max_size=3))
    a = arbo.Linker().discover(documents, lines[:n])
    b = arbo.Linker().discover([one for i, one in enumerate(documents) if i not in gone], lines[m:])
    tables = [[] if run.correction_table is None else run.correction_table.to_pylist() for run in (b, a)]
    later, earlier = ([row["record"] for row in rows if row["status"] == "obeyed"] for rows in tables)
    lines = [line for line in later if line not in earlier] + [line for line in earlier if line not in later]
    left = {link.mention.id for link in b.links}
    for row in diff(a, b).clusters:
        decided, lost = [], []
        for cluster in (row.cluster, *row.of):
            own = [link for run in (a, b) for link in run.links if link.cluster == cluster]
            about = {f'"{id_}"' for link in own for id_ in (link.mention.id, link.follows)}
            decided += [line for line in lines if any(id_ in line for id_ in about)]
            lost += [link.mention.id for link in a.links if link.cluster == cluster and link.mention.id not in left]
        assert (row.correction, row.removed) == (next(iter(decided), None), next(iter(lost), None))
        assert row.causes.endswith(f"{row.removed} is gone") == bool(lost)


def test_clusters_are_split_and_merged() -> None:
    documents = [document("a", "zzz fever", "zzz fevers"), document("b", "zzz feverish")]
    tight, loose = (arbo.Linker(config=arbo.LinkerConfig(mention_threshold=t)).discover(documents) for t in (0.01, 0.9))
    assert len(tight.clusters) == 2
    assert len(loose.clusters) == 1
    merged, split = diff(tight, loose), diff(loose, tight)
    assert clusters(merged) == {"new-a-0": "grown", "new-b-0": "merged"}
    assert [row.into for row in merged.clusters if row.change == "merged"] == [("new-a-0",)]
    assert clusters(split) == {"new-a-0": "split", "new-b-0": "split"}
    assert [(m.mention, m.change) for m in split.mentions] == [("b-0", "regrouped")]


def test_without_its_first_mention_a_discovered_entity_is_renamed() -> None:
    documents = [document("a", "zzz"), document("b", "zzz"), document("c", "zzz")]
    changes = diff(arbo.Linker().discover(documents), arbo.Linker().discover(documents[1:]))
    assert clusters(changes) == {"new-b-0": "renamed"}
    assert [(m.mention, m.change) for m in changes.mentions] == [
        ("b-0", "regrouped"),
        ("c-0", "regrouped"),
        ("a-0", "gone"),
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 11), max_size=12, unique=True), st.lists(st.integers(0, 11), max_size=12, unique=True))
def test_every_change_is_told_once(first: list[int], second: list[int]) -> None:
    """By brute force: a mention is told of if and only if a run lacks it, or its entity or cluster differs."""
    names = ["marsh fever", "kelp blight", "zzz", "zzz fever", "marsh", "yyy"]
    a, b = (linker(KB).link([document(f"d{i:02}", names[i % 6]) for i in sorted(chosen)]) for chosen in (first, second))
    answers = [{link.mention.id: (link.entity, link.cluster) for link in run.links} for run in (a, b)]
    expected = {id_ for id_ in answers[0].keys() | answers[1].keys() if answers[0].get(id_) != answers[1].get(id_)}
    changes = diff(a, b)
    assert sorted(row.mention for row in changes.mentions) == sorted(expected)
    assert len({row.cluster for row in changes.clusters}) == len(changes.clusters)
    members = [{c.id: frozenset(m.id for m in c.mentions) for c in run.clusters} for run in (a, b)]
    differing = {id_ for id_ in members[1] if members[0].get(id_) != members[1][id_]}
    assert {row.cluster for row in changes.clusters if row.after} == differing


def test_the_command_line(run: Run, tmp_path: object, sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    documents, kb = sample
    folder = tmp_path
    linker(kb).link(documents[:40]).save(f"{folder}/one")
    linker(kb).link(documents).save(f"{folder}/two")
    told = run("diff", f"{folder}/one", f"{folder}/two")
    assert told.code == 0, told.err
    assert "mentions: 1 linked, 312 new" in told.err
    head, *lines = [line.split("\t") for line in told.out.splitlines()]
    assert head == ["change", "mention", "document", "text", "before", "after", "gold", "sentence"]
    assert len(lines) == 313
    assert len(run("diff", f"{folder}/one", f"{folder}/two", "--limit", 3).out.splitlines()) == 4
    (linked,) = (dict(zip(head, line, strict=True)) for line in lines if line[0] == "linked")
    assert linked["before"].startswith("new-")
    assert linked["after"] == linked["gold"]
    assert linked["text"] in linked["sentence"]
    print_changes(diff(*(arbo.Result.load(f"{folder}/{name}") for name in ("one", "two"))), 3)
    shown = capsys.readouterr().out
    assert shown.count("--json prints all") == 2
    assert "gold" in shown
    rows = run("diff", f"{folder}/one", f"{folder}/two", "--json").json
    assert set(rows) == {"clusters", "mentions"}
    assert len(rows["mentions"]) == 313
    assert {"mention", "change", "entity_before", "entity_after", "parent", "weight"} <= set(rows["mentions"][0])
    same = run("diff", f"{folder}/two", f"{folder}/two")
    assert same.err.split("\n")[:2] == ["clusters: no change", "mentions: no change"]
    assert len(same.out.splitlines()) == 1


def test_documents_are_part_of_a_run(sample: Sample, tmp_path: object) -> None:
    documents, kb = sample
    result = linker(kb).link(documents)
    result.save(f"{tmp_path}/run")
    loaded = arbo.Result.load(f"{tmp_path}/run")
    assert [loaded.text_of(d.id) for d in documents] == [d.text for d in documents]
    with pytest.raises(KeyError):
        loaded.text_of("nobody")
    result.save(f"{tmp_path}/run", texts=False)
    assert arbo.Result.load(f"{tmp_path}/run").text_of(documents[0].id) is None
