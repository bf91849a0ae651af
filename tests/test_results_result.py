"""What a result says: links, clusters, reasons, flat tables, the same from its folder, and what differs between two."""

import ast
import json
from collections import namedtuple
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from builders import document, drawn_documents, kb_of, linker, sample_edges
from conftest import Run, Sample
from hypothesis import given, settings, strategies as st

import arbo
from arbo.cli.console import print_changes
from arbo.data.corpus import Corpus
from arbo.data.tables import numbered
from arbo.explore.report import Payload
from arbo.results import schema
from arbo.results.diff import Diff, diff
from arbo.results.graphs import edges_of, next_joins
from arbo.results.views import cluster_view, mention_view, selected, wrong_kinds

SAMPLE, BASE = arbo.load_sample()


def test_a_mention_id_is_explained_like_its_link(result: arbo.Result, sample: Sample) -> None:
    kb, link = sample[1], result.links[3]
    assert str(result.explain(link.mention.id)) == str(result.explain(link))
    linked = [link for link in result.links if link.entity is not None and link.margin is not None]
    for link in linked[:20]:
        nearest, second = (f"{kb[id_].name} ({id_}" for id_, _ in link.candidates[:2])
        told = str(result.explain(link)).splitlines()[0]
        assert (f"over {second}" if link.candidates[0][0] == link.entity else f"nearest entity {nearest}") in told


def test_an_explanation_names_entities_and_matched_aliases(result: arbo.Result) -> None:
    told = result.explain("D06-3")
    assert 'alias "root rot"' in str(told).splitlines()[1]
    assert (told.path[0].name, told.path[0].alias) == ("fungal root rot of marsh sorrel", "root rot")
    rival = told.rivals[0]
    assert (rival.id, rival.name, rival.alias) == ("DS:0002", "heath stem rot", "stem rot")
    nil = result.explain(next(link for link in result.links if link.mention.text == "Foxglove Hollow"))
    assert 'in cluster new-D09-1 "Foxglove Hollow"' in nil.text
    assert 'the nearest entity, heath stem rot (DS:0002, alias "stem hollowing of heath"), has similarity' in nil.text
    assert "other candidates, by similarity: Mallow Bay (PL:0008)" in nil.text


def test_the_entities_of_a_run_are_its_links_and_candidates(result: arbo.Result) -> None:
    used = {id_ for link in result.links for id_, _ in link.candidates} | {link.entity for link in result.links}
    assert set(result.entity_table["entity_id"].to_pylist()) == used - {None}
    assert len(result.entity_table) == len(used - {None})
    assert result.names_of("nothing") == []


def test_a_label_that_is_a_number_names_its_mention() -> None:
    result = arbo.Linker().discover(pd.Series(["flu", "flux"], index=[10, 11]))
    assert result.cluster_of(10) == result.cluster_of("10")
    assert str(result.explain(11)) == str(result.explain("11"))
    with pytest.raises(arbo.UsageError, match="'5'"):
        result.explain(5)


def test_links_are_a_sequence(result: arbo.Result) -> None:
    links = result.links
    assert len(links) == len(SAMPLE.mentions)
    assert [link.mention for link in links] == list(SAMPLE.mentions)
    assert (links[-1], links[:5]) == ([*links][-1], [*links][:5])
    assert links[5:2:-1] == [links[5], links[4], links[3]]
    assert links == links[:] != links[:1]
    assert "(584 in all)" in repr(links)
    with pytest.raises(IndexError):
        links[len(links)]
    assert result.link_of(links[7].mention.id) == links[7]
    for find in (result.link_of, result.cluster_of):
        with pytest.raises(KeyError, match="nobody"):
            find("nobody")


def test_a_mention_has_the_cluster_of_its_link(result: arbo.Result) -> None:
    of_mention = {mention.id: cluster for cluster in result.clusters for mention in cluster.mentions}
    for link in result.links:
        cluster = of_mention[link.mention.id]
        assert result.cluster_of(link) == result.cluster_of(link.mention.id) == cluster
        assert (cluster.id, cluster.entity) == (link.cluster, link.entity)


def test_discovered_clusters_come_last_and_the_largest_first(result: arbo.Result) -> None:
    discovered = list(result.discovered)
    assert discovered == list(result.clusters)[-len(discovered) :]
    assert [cluster.id for cluster in discovered] == [f"new-{cluster.mentions[0].id}" for cluster in discovered]
    sizes = [len(cluster.mentions) for cluster in discovered]
    assert sizes == sorted(sizes, reverse=True)
    rows = [BASE.index(cluster.entity) for cluster in result.clusters if cluster.entity is not None]
    assert rows == sorted(rows)


def test_a_new_cluster_never_takes_the_id_of_an_entity_or_of_another() -> None:
    taken = [arbo.Entity("new-d-1", "marsh fever"), arbo.Entity("A", "kelp blight", alternative_ids=("new-d-1#2",))]
    found = arbo.Linker(taken).link([document("d", "marsh fever", "zzz qqq", "yyy")])
    clusters = [("new-d-1", "new-d-1", 1), ("new-d-1#3", None, 1), ("new-d-2", None, 1)]
    assert [(c.id, c.entity, len(c.mentions)) for c in found.clusters] == clusters
    # A mention id can look like a name that was changed.
    mentions = [{"id": id_, "spans": [[i, i + 1]]} for i, id_ in enumerate(["a", "a#2", "b"])]
    kb = arbo.KnowledgeBase([arbo.Entity("new-a", "marsh fever")])
    found = arbo.Linker(kb, config=arbo.LinkerConfig(k=0)).link([{"id": "d", "text": "xyz", "mentions": mentions}])
    assert [link.cluster for link in found.links] == ["new-a#2", "new-a#2#2", "new-b"]


def test_the_explanation_of_a_link_is_its_path(result: arbo.Result) -> None:
    longest = max((link for link in result.links if link.entity), key=lambda link: len(result.explain(link).path))
    explanation = result.explain(longest)
    entity, *steps = explanation.path
    assert len(steps) >= 2
    assert (entity.id, entity.name, entity.document_id) == (longest.entity, BASE[longest.entity].name, None)
    assert steps[-1].id == longest.mention.id
    weakest = explanation.path[explanation.weakest]
    assert weakest.dissimilarity == longest.bottleneck == max(step.dissimilarity or 0 for step in steps)
    for step, before in zip(reversed(steps), list(reversed(explanation.path))[1:], strict=True):
        link = result.link_of(step.id)
        assert (link.parent, link.step) == (before.id, step.dissimilarity)
    text = str(explanation).splitlines()
    assert len(text) == 2 + len(steps) + 1  # head, entity, steps, other candidates
    assert longest.mention.text in text[0]
    assert longest.entity in text[0]
    marked = [line for line in text if line.endswith("<- weakest step")]
    assert marked == [text[1 + explanation.weakest]]
    assert weakest.name in marked[0]
    link = next(link for link in result.links if link.expansion and link.entity)
    assert f'{link.mention.text}" (= {link.expansion})' in str(result.explain(link))
    assert not any(link.expansion == link.mention.text for link in result.links)


def test_the_explanation_of_nil_and_of_a_discovery(result: arbo.Result) -> None:
    cluster = result.discovered[0]
    link = result.link_of(cluster.mentions[0].id)
    explanation = result.explain(link)
    assert (explanation.entity, explanation.weakest, len(explanation.path)) == (None, None, 1)
    text, (id_, score) = str(explanation), link.candidates[0]
    words = ["NIL", cluster.id, id_, f"{score:.3f}", *(mention.document_id for mention in cluster.mentions[1:3])]
    assert [word for word in words if word not in text] == []
    alone = next(cluster for cluster in result.discovered if len(cluster.mentions) == 1)
    assert "alone" in str(result.explain(result.link_of(alone.mentions[0].id)))
    found = arbo.Linker().discover(arbo.load_sample()[0])
    assert len(found.discovered) == len(found.clusters)
    text = str(found.explain(found.link_of(found.clusters[0].mentions[0].id)))
    assert "together with" in text
    assert "nearest entity" not in text


def test_a_saved_result_is_the_same_again(result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    again = arbo.Result.load(tmp_path / "run")
    for name in ("mention_table", "link_table", "cluster_table"):
        assert getattr(again, name) == getattr(result, name)
    assert again.evaluate().as_dict() == result.evaluate().as_dict()
    told = [again.explain(link) for link in again.links]
    assert told == [result.explain(link) for link in result.links]
    assert all(link.mention.text in one.text for link, one in zip(result.links, told, strict=True))
    assert repr(again) == repr(result)


def test_the_columns_are_the_documented_ones(result: arbo.Result) -> None:
    page = (Path(__file__).parent.parent / "docs" / "tables.md").read_text("utf-8")
    expected = "\n\n".join(map(documented, schema.TABLES))
    assert expected in page, f"docs/tables.md should say:\n{expected}"
    for name in ("mentions", "links", "clusters", "documents", "entities"):
        assert schema.problem_of(name, getattr(result, f"{name[:-1].replace('entitie', 'entity')}_table")) is None


def documented(name: str) -> str:
    """Return what docs/tables.md says of a table: the docstrings of its class and of its fields."""
    source, kind = ast.parse(Path(schema.__file__).read_text("utf-8")), schema.TABLES[name].__name__
    (body,) = (node.body for node in source.body if isinstance(node, ast.ClassDef) and node.name == kind)
    text = {
        ast.unparse(field.target): " ".join(after.value.value.replace("``", "`").split())
        for field, after in pairwise(body)
        if isinstance(field, ast.AnnAssign)
    }
    fields: dict[str, list[str]] = {}
    for column, declared in schema.SCHEMA[name].items():
        fields.setdefault(declared.field, []).append(f"`{column}`")
    rows = [f"- {', '.join(columns)}: {text[field]}" for field, columns in fields.items()]
    about = " ".join(ast.get_docstring(ast.ClassDef(kind, [], [], body, [])).replace("``", "**").split())
    return "\n".join([about, "", *rows])


def test_a_new_link_column_is_declared(result: arbo.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = get_type_hints(schema.Link, include_extras=True) | {"rank": Annotated[int, schema.Stored(flat=True)]}
    wider = namedtuple("Wider", fields, defaults=[*schema.Link._field_defaults.values(), 0])
    wider.__annotations__ = fields
    monkeypatch.setitem(schema.TABLES, "links", wider)
    monkeypatch.setitem(schema.SCHEMA, "links", dict(schema.columns_of(wider)))
    ranks = pa.array(range(result.link_table.num_rows), pa.int32())
    run = replace(result, link_rows=result.link_table.append_column("rank", ranks))
    assert [link.rank for link in run.links] == ranks.to_pylist()
    assert [link.rank for link in result.links] == [0] * len(ranks)
    assert run.to_pandas()["rank"].tolist() == ranks.to_pylist()
    assert "rank" in Payload(run, "run").overview["links"]
    assert b'["rank", "i"' in Payload(run, "run").tables
    run.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").links[3].rank == 3
    replace(run, link_rows=result.link_table.append_column("rank", ranks.cast(pa.int64()))).save(tmp_path / "other")
    with pytest.raises(arbo.DataError, match="the column rank has the type int64, not int32"):
        arbo.Result.load(tmp_path / "other")


def test_the_manifest_tells_how(result: arbo.Result, sample: Sample) -> None:
    kb = sample[1]
    assert result.manifest["config"] == arbo.LinkerConfig().as_dict()
    assert result.manifest["knowledge_base"] == {"entities": len(kb), "fingerprint": kb.fingerprint}
    assert result.manifest["encoder"]["encoder"] == "ngram"
    assert all(seconds >= 0 for seconds in result.manifest["seconds"].values())


def test_warnings_of_ties_and_of_doubtful_ids(tmp_path: Path) -> None:
    alike = arbo.KnowledgeBase([arbo.Entity(f"E{row}", "flu") for row in range(3)] + [arbo.Entity("D", "cold")])
    half = [document("d", ("flu", ["NIL"]), ("cold", ["NIL"]))]
    assert len(arbo.Linker(alike).link(half).warnings) == 1
    result = arbo.Linker(alike).link([*half, document("e", "flu", "sneeze")])
    ties, doubt = result.warnings
    assert ties.startswith("2 of 3 links have the margin 0: several entities are equally near, and ties go to")
    assert doubt.startswith("2 of 2 mentions with gold ids have the id 'NIL'")
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").warnings == result.warnings
    assert arbo.Linker().discover(["flu"]).warnings == ()


def test_a_circle_of_parents_ends_the_explanation() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")])
    result = linker(kb).link([document("d", "marsh fever", "marsh fevers")])
    links = result.link_table
    for column, values in (("parent", ["d-1", "d-0"]), ("parent_is_mention", [True, True])):
        links = links.set_column(links.column_names.index(column), column, pa.array(values))
    assert [step.id for step in replace(result, link_rows=links).explain("d-0").path] == ["E1", "d-1", "d-0"]


def test_all_mentions_are_there_as_in_the_documents(result: arbo.Result, sample: Sample) -> None:
    table, mentions = mention_view(result, selected(result)).to_pylist(), sample[0].mentions
    assert [row["mention_id"] for row in table] == [m.id for m in mentions]
    assert [(row["start"], row["end"]) for row in table] == [(m.start, m.end) for m in mentions]
    assert [row["entity_id"] for row in table] == [link.entity for link in result.links]


def test_a_selection_is_what_a_loop_would_choose(result: arbo.Result) -> None:
    links = list(result.links)
    for how, fits in (
        ({"nil": True}, lambda at: at.entity is None),
        ({"words": "PETREL"}, lambda at: "petrel" in f"{at.mention.text}|{at.entity_name}|{at.expansion}".lower()),
        ({"nil": True, "words": "a"}, lambda at: at.entity is None and "a" in f"{at.name}|{at.mention.text}".lower()),
    ):
        expected = [at.mention.id for at in links if fits(at)]
        assert expected, how
        assert mention_view(result, selected(result, **how))["mention_id"].to_pylist() == expected


def test_the_least_certain_come_first(result: arbo.Result) -> None:
    by_margin = replace(result, link_rows=result.link_table.drop_columns(["confidence"]))
    for run, column in ((result, "confidence"), (by_margin, "margin")):
        values = mention_view(run, selected(run, doubtful=True))[column].to_pylist()
        known = [value for value in values if value is not None]
        assert known == sorted(known)
        assert values[: len(known)] == known
    found = arbo.Linker().discover(["J. Smith", "Tern Optics", "Tern Optic", "Kelp & Blight Ltd", "Kelp and Blight"])
    joins = [found.cluster_of(found.links[row]).weakest_join or 0 for row in selected(found, doubtful=True)]
    assert joins == sorted(joins, reverse=True) != [0] * 5


def test_what_else_a_doubtful_decision_might_be_is_shown(result: arbo.Result, run: Run, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    assert "right ones among all NIL decisions" in run("show", tmp_path / "run", "--doubtful").err
    for row in run("show", tmp_path / "run", "--doubtful", "--json").json["mentions"]:
        link = result.link_of(row["mention_id"])
        other = next(one for one in link.candidates if one[0] != link.entity)
        assert (row["runner_up_id"], row["runner_up_score"]) == other
    apart = arbo.Linker(config={"mention_threshold": 0.001}).discover(["Tern Optics", "Fen", "Tern Optic"])
    apart.save(tmp_path / "apart")
    *rows, alone = run("show", tmp_path / "apart", "--doubtful", "--json").json["mentions"]
    assert [(row["mention_id"], row["next_cluster_id"]) for row in rows] == [("0", "new-2"), ("2", "new-0")]
    assert rows[0]["next_join"] == pytest.approx(1 - apart.pairs()["score"][0].as_py(), abs=1e-6)
    assert (rows[0]["threshold"], alone["next_join"]) == (pytest.approx(0.001), None)
    assert f'would join next, at {rows[0]["next_join"]:.3f}: "Tern Optic" (new-2)' in str(apart.explain("0"))
    assert "NIL" not in str(apart.explain("1"))


def test_under_single_linkage_the_next_join_is_the_lightest_edge_to_another_cluster() -> None:
    found = arbo.Linker(edges=sample_edges()).discover(SAMPLE)
    expected, (ends, similarity) = np.full(len(found.clusters), np.inf, np.float32), edges_of(found)
    for end in (ends := found.cluster_rows[ends]):
        np.minimum.at(expected, end[is_away := ends[0] != ends[1]], 1 - similarity[is_away])
    assert np.isfinite(expected).sum() > 80
    np.testing.assert_array_equal(np.nan_to_num(next_joins(found)[1], nan=np.inf).astype(np.float32), expected)


def wrong_rows(run: arbo.Result) -> list[dict[str, Any]]:
    kinds = wrong_kinds(run)
    return mention_view(run, np.flatnonzero(kinds >= 0), kinds).to_pylist()


def test_wrong_links_come_by_their_reason(tmp_path: Path, run: Run) -> None:
    kelp = arbo.Entity("E3", "kelp", ("seaweed",))
    kb = kb_of(arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "marsh fevre"), kelp)
    golds = {"marsh fever": ["E1", "E2", "E3", None], "seaweed": ["E3", "E1", None]}
    golds |= {"marsh fevers of the coast": ["E2"], "unheard": ["E3", None]}
    documents = [document(f"{text}-{gold}", (text, [gold or "E9"])) for text, some in golds.items() for gold in some]
    found = arbo.Linker(kb, config=arbo.LinkerConfig(k=0, entity_threshold=0.6, candidates=2)).link(documents)
    assert {(row["document_id"], row["wrong"]) for row in wrong_rows(found)} == {
        ("marsh fever-E2", "name of another entity"),
        ("marsh fever-E3", "name of another entity"),
        ("seaweed-E1", "name of another entity"),
        ("marsh fevers of the coast-E2", "outranked"),
        ("unheard-E3", "NIL"),
        ("marsh fever-None", "not in the knowledge base"),
        ("seaweed-None", "not in the knowledge base"),
    }
    found.save(tmp_path / "run")
    head, *lines = (line.split("\t") for line in run("show", tmp_path / "run", "--wrong").out.splitlines())
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    found = [(row["document_id"], row["wrong"], row["gold"]) for row in rows[3:5]]
    assert found == [("marsh fevers of the coast-E2", "outranked", "E2"), ("unheard-E3", "NIL", "E3")]
    assert len(run("show", tmp_path / "run", "--wrong", "--nil", "--json").json["mentions"]) == 1
    several = [{"mention": "d-0", "entity": ["E2", "E3"]}]
    assert wrong_rows(arbo.Linker(kb).link([document("d", ("marsh fever", ["E3"]))], several)) == []
    arbo.Linker(kb).link(["kelp"]).save(tmp_path / "plain")
    assert "no gold annotations" in run("show", tmp_path / "plain", "--wrong").err


def test_clusters_of_mentions(result: arbo.Result) -> None:
    table = cluster_view(result, np.unique(result.cluster_rows[selected(result, nil=True)])).to_pylist()
    assert [row["cluster_id"] for row in table] == [cluster.id for cluster in result.discovered]
    for row, cluster in zip(table, result.discovered, strict=True):
        assert row["size"] == len(cluster.mentions)
        assert set(row["examples"]) <= {mention.text for mention in cluster.mentions}
        assert row["examples"]


def test_no_mention_and_a_discontinuous_one() -> None:
    empty = arbo.Linker().discover([document("d")])
    rows = selected(empty, doubtful=True, words="x")
    assert len(mention_view(empty, rows)) == len(cluster_view(empty, empty.cluster_rows[rows])) == 0
    assert rows.dtype == np.int64
    assert "see arbo.find_mentions" in repr(empty)
    mention = {"id": "m", "spans": [[9, 14], [0, 4]]}
    found = arbo.Linker().discover([{"id": "d", "text": "left and right kidney", "mentions": [mention]}])
    (row,) = mention_view(found, selected(found)).to_pylist()
    assert (row["start"], row["end"]) == (0, 14)


def test_the_command_line(run: Run, result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    header, *lines = run("show", tmp_path / "run", "--limit", 2).ok().out.splitlines()
    assert (header.split("\t")[:3], len(lines)) == (["mention_id", "document_id", "start"], 2)
    assert len(run("show", tmp_path / "run").out.splitlines()) == 1 + len(result.links)
    shown = run("show", tmp_path / "run", "--nil", "--json").json
    assert set(shown) == {"mentions", "clusters", "evidence"}
    assert all(row["entity_id"] is None for row in shown["mentions"])
    assert len(shown["clusters"]) == len(result.discovered)
    clusters = run("show", tmp_path / "run", "--clusters", "--text", "petrel").out.splitlines()
    assert clusters[0].startswith("cluster_id\tentity_id\tname\tsize")
    refused = run("show", tmp_path / "run", "nobody")
    words = "no mention has the id, document, cluster, entity or text 'nobody'"
    assert (refused.code, words in refused.told) == (2, True)


KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight")])


def clusters(changes: Diff) -> dict[str, str]:
    return dict(zip(*(changes.clusters[name].to_pylist() for name in ("cluster", "change")), strict=True))


def mentions(changes: Diff, *names: str) -> list[tuple[str | None, ...]]:
    return [*zip(*(changes.mentions[name].to_pylist() for name in names), strict=True)]


def test_new_documents_make_clusters_grow_and_bring_new_ones() -> None:
    before, after = [document("a", "marsh fever", "zzz")], [document("b", "marsh fever", "kelp blight", "yyy")]
    changes = diff(linker(KB).link(before), linker(KB).link(before + after))
    assert clusters(changes) == {"E1": "grown", "E2": "new", "new-b-2": "new"}
    new = [("b-0", "new", "E1"), ("b-1", "new", "E2"), ("b-2", "new", None)]
    assert mentions(changes, "mention", "change", "entity_after") == new
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
    one, other = mentions(linked, "mention", "change", "cluster_before")
    assert (one, other) == (("a-1", "linked", "new-a-1"), ("b-0", "linked", "new-a-1"))
    assert (clusters(unlinked), unlinked.counts()["mentions"]) == ({"new-a-1": "unlinked"}, {"unlinked": 2})


def test_settings_that_differ_are_told() -> None:
    documents = [document("a", "marsh fever", "zzz")]
    one = linker(KB).link(documents)
    other = linker(KB, method="independent", entity_threshold=None).link(documents)
    changes = diff(one, other)
    assert changes.settings == {"method": ("arborescence", "independent"), "entity_threshold": ("default", None)}
    assert "settings: method from arborescence to independent, entity_threshold from default to None" in str(changes)
    assert json.loads(json.dumps(changes.as_dict()))["settings"]["method"] == ["arborescence", "independent"]
    assert diff(one, one).counts() == {"clusters": {}, "mentions": {}}
    assert diff(one, one).as_dict() == {"clusters": [], "mentions": []}
    for run, fingerprint in ((one, "a1"), (other, "b2")):
        run.manifest["encoder"]["edges"] = {"pairs": 600, "fingerprint": fingerprint}
    assert diff(one, other).settings.keys() == {*changes.settings, "encoder.edges.fingerprint"}


@settings(max_examples=20, deadline=None)
@given(drawn_documents())
def test_mentions_are_numbered_as_in_a_corpus(documents: tuple[arbo.Document, ...]) -> None:
    corpus = Corpus.of(documents)
    assert numbered(arbo.Linker().discover(corpus).mention_table).tolist() == corpus.order.tolist()


def test_clusters_are_split_merged_and_renamed() -> None:
    documents = [document("a", "zzz fever", "zzz fevers"), document("b", "zzz feverish")]
    tight, loose = (arbo.Linker(config=arbo.LinkerConfig(mention_threshold=t)).discover(documents) for t in (0.01, 0.9))
    assert (len(tight.clusters), len(loose.clusters)) == (2, 1)
    merged, split = diff(tight, loose), diff(loose, tight)
    assert clusters(merged) == {"new-a-0": "grown", "new-b-0": "merged"}
    assert [row["into"] for row in merged.clusters.to_pylist() if row["change"] == "merged"] == [["new-a-0"]]
    assert clusters(split) == {"new-a-0": "split", "new-b-0": "split"}
    assert mentions(split, "mention", "change") == [("b-0", "regrouped")]
    three = [document(id_, "zzz") for id_ in "abc"]  # without its first mention, a discovered entity is renamed
    changes = diff(arbo.Linker().discover(three), arbo.Linker().discover(three[1:]))
    assert clusters(changes) == {"new-b-0": "renamed"}
    assert mentions(changes, "mention", "change") == [("b-0", "regrouped"), ("c-0", "regrouped"), ("a-0", "gone")]


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
    assert changes.decisions == ["Ann: 'marsh fever' is kelp blight; 1 followed", "correction: 'blight' is rot"]
    assert "Ann: 'marsh fever' is kelp blight; 1 followed" in str(changes).splitlines()
    waits = linker(base).link([*documents, document("f", "fever")], [{"mention": "f-0", "entity": "unknown"}])
    assert diff(before, waits).decisions == []


def test_changes_in_the_shell(run: Run, tmp_path: object, sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    (documents, kb), folder = sample, tmp_path
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
    assert (set(rows), len(rows["mentions"])) == ({"clusters", "mentions"}, 313)
    assert {"mention", "change", "entity_before", "entity_after", "parent", "weight"} <= set(rows["mentions"][0])
    same = run("diff", f"{folder}/two", f"{folder}/two")
    assert same.err.split("\n")[:2] == ["clusters: no change", "mentions: no change"]
    assert len(same.out.splitlines()) == 1
