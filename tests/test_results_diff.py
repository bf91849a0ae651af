"""What differs between two runs."""

import json

import pytest
from builders import document, drawn_documents, linker
from conftest import Run, Sample
from hypothesis import given, settings, strategies as st

import arbo
from arbo.cli.console import print_changes
from arbo.data.corpus import Corpus
from arbo.data.tables import numbered
from arbo.results.diff import Diff, diff

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight")])


def clusters(changes: Diff) -> dict[str, str]:
    return dict(zip(*(changes.clusters[name].to_pylist() for name in ("cluster", "change")), strict=True))


def mentions(changes: Diff, *names: str) -> list[tuple[str | None, ...]]:
    return [*zip(*(changes.mentions[name].to_pylist() for name in names), strict=True)]


def test_a_run_does_not_differ_from_itself(result: arbo.Result) -> None:
    changes = diff(result, result)
    assert changes.counts() == {"clusters": {}, "mentions": {}}
    assert changes.as_dict() == {"clusters": [], "mentions": []}


def test_new_documents_make_clusters_grow_and_bring_new_ones() -> None:
    before, after = [document("a", "marsh fever", "zzz")], [document("b", "marsh fever", "kelp blight", "yyy")]
    changes = diff(linker(KB).link(before), linker(KB).link(before + after))
    assert clusters(changes) == {"E1": "grown", "E2": "new", "new-b-2": "new"}
    assert mentions(changes, "mention", "change", "entity_after") == [
        ("b-0", "new", "E1"),
        ("b-1", "new", "E2"),
        ("b-2", "new", None),
    ]
    assert changes.mentions["parent"][0].is_valid
    gone = diff(linker(KB).link(before + after), linker(KB).link(before))
    assert clusters(gone) == {"E1": "shrunk", "E2": "gone", "new-b-2": "gone"}
    assert gone.counts()["mentions"] == {"gone": 3}


def test_an_entity_that_comes_or_goes_links_and_unlinks() -> None:
    documents = [document("a", "marsh fever", "kelp blight"), document("b", "kelp blight")]
    without, with_it = linker(arbo.KnowledgeBase([KB["E1"]])).link(documents), linker(KB).link(documents)
    linked, unlinked = diff(without, with_it), diff(with_it, without)
    (row,) = linked.clusters.drop_columns(["name", "cause"]).to_pylist()
    assert row == {"cluster": "E2", "change": "linked", "before": 2, "after": 2, "of": [], "into": []}
    assert mentions(linked, "mention", "change", "cluster_before") == [
        ("a-1", "linked", "new-a-1"),
        ("b-0", "linked", "new-a-1"),
    ]
    assert clusters(unlinked) == {"new-a-1": "unlinked"}
    assert unlinked.counts()["mentions"] == {"unlinked": 2}


def test_settings_that_differ_are_told() -> None:
    documents = [document("a", "marsh fever", "zzz")]
    one = linker(KB).link(documents)
    other = linker(KB, method="independent", entity_threshold=None).link(documents)
    changes = diff(one, other)
    assert changes.settings == {"method": ("arborescence", "independent"), "entity_threshold": ("default", None)}
    assert "settings: method from arborescence to independent, entity_threshold from default to None" in str(changes)
    assert json.loads(json.dumps(changes.as_dict()))["settings"]["method"] == ["arborescence", "independent"]
    assert "settings" not in diff(one, one).as_dict()
    for run, fingerprint in ((one, "a1"), (other, "b2")):
        run.manifest["encoder"]["edges"] = {"pairs": 600, "fingerprint": fingerprint}
    assert diff(one, other).settings.keys() == {*changes.settings, "encoder.edges.fingerprint"}


@settings(max_examples=20, deadline=None)
@given(drawn_documents())
def test_mentions_are_numbered_as_in_a_corpus(documents: tuple[arbo.Document, ...]) -> None:
    corpus = Corpus.of(documents)
    assert numbered(arbo.Linker().discover(corpus).mention_table).tolist() == corpus.order.tolist()


def test_clusters_are_split_and_merged() -> None:
    documents = [document("a", "zzz fever", "zzz fevers"), document("b", "zzz feverish")]
    tight, loose = (arbo.Linker(config=arbo.LinkerConfig(mention_threshold=t)).discover(documents) for t in (0.01, 0.9))
    assert len(tight.clusters) == 2
    assert len(loose.clusters) == 1
    merged, split = diff(tight, loose), diff(loose, tight)
    assert clusters(merged) == {"new-a-0": "grown", "new-b-0": "merged"}
    assert [row["into"] for row in merged.clusters.to_pylist() if row["change"] == "merged"] == [["new-a-0"]]
    assert clusters(split) == {"new-a-0": "split", "new-b-0": "split"}
    assert mentions(split, "mention", "change") == [("b-0", "regrouped")]


def test_without_its_first_mention_a_discovered_entity_is_renamed() -> None:
    documents = [document("a", "zzz"), document("b", "zzz"), document("c", "zzz")]
    changes = diff(arbo.Linker().discover(documents), arbo.Linker().discover(documents[1:]))
    assert clusters(changes) == {"new-b-0": "renamed"}
    assert mentions(changes, "mention", "change") == [
        ("b-0", "regrouped"),
        ("c-0", "regrouped"),
        ("a-0", "gone"),
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 11), max_size=12, unique=True), st.lists(st.integers(0, 11), max_size=12, unique=True))
def test_every_change_is_told_once(first: list[int], second: list[int]) -> None:
    """By brute force: a mention is told of if and only if a run lacks it, or its entity or cluster differs."""
    names = ["marsh fever", "kelp blight", "zzz", "zzz fever", "marsh", "yyy"]
    a, b = (linker(KB).link([document(f"d{i:02}", names[i % 6]) for i in sorted(chosen)]) for chosen in (first, second))
    answers = [{link.mention.id: (link.entity, link.cluster) for link in run.links} for run in (a, b)]
    expected = {id_ for id_ in answers[0].keys() | answers[1].keys() if answers[0].get(id_) != answers[1].get(id_)}
    changes = diff(a, b)
    assert sorted(changes.mentions["mention"].to_pylist()) == sorted(expected)
    assert len(clusters(changes)) == len(changes.clusters)
    members = [{c.id: frozenset(m.id for m in c.mentions) for c in run.clusters} for run in (a, b)]
    differing = {id_ for id_ in members[1] if members[0].get(id_) != members[1][id_]}
    assert {row["cluster"] for row in changes.clusters.to_pylist() if row["after"]} == differing


def test_decisions_are_told_with_what_followed() -> None:
    base = arbo.KnowledgeBase([arbo.Entity("E0", "marsh fever"), arbo.Entity("E1", "kelp blight")])
    documents = [document("d", "marsh fever", "marsh fevers", "blight"), document("e", "marsh fever")]
    before = linker(base).link(documents)
    lines = [{"mention": "d-0", "entity": "E1", "author": "Ann"}, {"mention": "d-2", "new": "rot"}]
    nil = diff(before, linker(base).link(documents, [{"mention": "d-2", "entity": None}]))
    assert nil.decisions == ["correction: 'blight' is NIL"]
    changes = diff(before, linker(base).link(documents, lines))
    assert changes.decisions == ["Ann: 'marsh fever' is kelp blight; 2 followed", "correction: 'blight' is rot"]
    assert "Ann: 'marsh fever' is kelp blight; 2 followed" in str(changes).splitlines()


def test_the_command_line(run: Run, tmp_path: object, sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    documents, kb = sample
    folder = tmp_path
    runs = [linker(kb, entity_threshold=0.35).link(own) for own in (documents[:40], documents)]
    for result, name in zip(runs, ("one", "two"), strict=True):
        result.save(f"{folder}/{name}", texts=name == "two")
    assert diff(f"{folder}/one", runs[1]) == diff(*runs)
    told = run("diff", f"{folder}/one", f"{folder}/two").ok()
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
