"""What a result says: links, clusters, reasons, and the same from its folder."""

import ast
from collections import namedtuple
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, get_type_hints

import pandas as pd
import pyarrow as pa
import pytest
from builders import document, linker
from conftest import Sample

import arbo
from arbo.explore.report import Payload
from arbo.results import schema


def test_a_mention_id_is_explained_like_its_link(result: arbo.Result, sample: Sample) -> None:
    kb, link = sample[1], result.links[3]
    assert str(result.explain(link.mention.id)) == str(result.explain(link))
    linked = [link for link in result.links if link.entity is not None and link.margin is not None]
    for link in linked[:20]:
        nearest, second = (f"{kb[id_].name} ({id_}" for id_, _ in link.candidates[:2])
        told = str(result.explain(link)).splitlines()[0]
        assert (f"over {second}" if link.candidates[0][0] == link.entity else f"nearest entity {nearest}") in told


def test_an_explanation_names_entities_and_matched_aliases(result: arbo.Result, tmp_path: Path) -> None:
    """Of a saved run as of a fresh one."""
    told = result.explain("D06-3")
    assert 'alias "root rot"' in str(told).splitlines()[1]
    assert (told.path[0].name, told.path[0].alias) == ("fungal root rot of marsh sorrel", "root rot")
    assert [(rival.id, rival.name, rival.alias) for rival in told.rivals][:1] == [
        ("DS:0002", "heath stem rot", "stem rot")
    ]
    nil = result.explain(next(link for link in result.links if link.mention.text == "Foxglove Hollow"))
    assert 'in cluster new-D09-1 "Foxglove Hollow"' in nil.text
    assert 'the nearest entity, heath stem rot (DS:0002, alias "stem hollowing of heath"), has similarity' in nil.text
    assert "other candidates, by similarity: Mallow Bay (PL:0008)" in nil.text
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").explain("D06-3") == told


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
    documents, _ = arbo.load_sample()
    links = result.links
    assert len(links) == len(documents.mentions)
    assert [link.mention for link in links] == list(documents.mentions)
    assert links[-1].mention == documents.mentions[-1]
    assert [link.mention.id for link in links[:5]] == [mention.id for mention in documents.mentions[:5]]
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
    for link in result.links[::7]:
        assert result.cluster_of(link) == result.cluster_of(link.mention.id) == of_mention[link.mention.id]
    for link in result.links:
        cluster = of_mention[link.mention.id]
        assert (cluster.id, cluster.entity) == (link.cluster, link.entity)


def test_discovered_clusters_come_last_and_the_largest_first(result: arbo.Result) -> None:
    _, kb = arbo.load_sample()
    discovered = list(result.discovered)
    assert discovered == list(result.clusters)[-len(discovered) :]
    assert [cluster.id for cluster in discovered] == [f"new-{cluster.mentions[0].id}" for cluster in discovered]
    sizes = [len(cluster.mentions) for cluster in discovered]
    assert sizes == sorted(sizes, reverse=True)
    rows = [kb.index(cluster.entity) for cluster in result.clusters if cluster.entity is not None]
    assert rows == sorted(rows)


def test_a_new_cluster_never_takes_the_id_of_an_entity_or_of_another() -> None:
    kb = arbo.KnowledgeBase(
        [arbo.Entity("new-d-1", "marsh fever"), arbo.Entity("A", "kelp blight", alternative_ids=("new-d-1#2",))]
    )
    found = arbo.Linker(kb).link([document("d", "marsh fever", "zzz qqq", "yyy")])
    assert [(c.id, c.entity, len(c.mentions)) for c in found.clusters] == [
        ("new-d-1", "new-d-1", 1),
        ("new-d-1#3", None, 1),
        ("new-d-2", None, 1),
    ]
    # A mention id can look like a name that was changed.
    mentions = [{"id": id_, "spans": [[i, i + 1]]} for i, id_ in enumerate(["a", "a#2", "b"])]
    kb = arbo.KnowledgeBase([arbo.Entity("new-a", "marsh fever")])
    found = arbo.Linker(kb, config=arbo.LinkerConfig(k=0)).link([{"id": "d", "text": "xyz", "mentions": mentions}])
    assert [link.cluster for link in found.links] == ["new-a#2", "new-a#2#2", "new-b"]


def test_the_explanation_of_a_link_is_its_path(result: arbo.Result) -> None:
    _, kb = arbo.load_sample()
    longest = max((link for link in result.links if link.entity), key=lambda link: len(result.explain(link).path))
    explanation = result.explain(longest)
    entity, *steps = explanation.path
    assert len(steps) >= 2
    assert (entity.id, entity.name, entity.document_id) == (longest.entity, kb[longest.entity].name, None)
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


def test_an_abbreviation_is_explained_with_its_expansion(result: arbo.Result) -> None:
    link = next(link for link in result.links if link.expansion and link.entity)
    assert f'{link.mention.text}" (= {link.expansion})' in str(result.explain(link))
    texts = {link.mention.text for link in result.links if link.expansion == link.mention.text}
    assert not texts


def test_the_explanation_of_nil(result: arbo.Result) -> None:
    cluster = result.discovered[0]
    link = result.link_of(cluster.mentions[0].id)
    explanation = result.explain(link)
    assert (explanation.entity, explanation.weakest, len(explanation.path)) == (None, None, 1)
    text = str(explanation)
    assert "NIL" in text
    assert cluster.id in text
    assert link.candidates[0][0] in text
    assert f"{link.candidates[0][1]:.3f}" in text
    assert all(mention.document_id in text for mention in cluster.mentions[1:3])
    alone = next(cluster for cluster in result.discovered if len(cluster.mentions) == 1)
    assert "alone" in str(result.explain(result.link_of(alone.mentions[0].id)))


def test_a_discovery_can_be_explained() -> None:
    documents, _ = arbo.load_sample()
    found = arbo.Linker().discover(documents)
    assert len(found.discovered) == len(found.clusters)
    text = str(found.explain(found.link_of(found.clusters[0].mentions[0].id)))
    assert "together with" in text
    assert "nearest entity" not in text


def test_a_saved_result_is_the_same_again(result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    again = arbo.Result.load(tmp_path / "run")
    assert again.mention_table == result.mention_table
    assert again.link_table == result.link_table
    assert again.cluster_table == result.cluster_table
    assert again.evaluate().as_dict() == result.evaluate().as_dict()
    assert list(again.links) == list(result.links)
    assert list(again.clusters) == list(result.clusters)
    told = [str(again.explain(link)) for link in again.links]
    assert told == [str(result.explain(link)) for link in result.links]
    assert all(link.mention.text in text for link, text in zip(result.links, told, strict=True))
    assert repr(again) == repr(result)


def test_the_columns_are_the_documented_ones(result: arbo.Result) -> None:
    page = (Path(__file__).parent.parent / "docs" / "tables.md").read_text("utf-8")
    expected = "\n\n".join(map(documented, schema.TABLES))
    assert expected in page, f"docs/tables.md should say:\n{expected}"
    for name in ("mentions", "links", "clusters", "documents", "entities"):
        assert schema.problem_of(name, getattr(result, f"{name[:-1].replace('entitie', 'entity')}_table")) is None


def documented(name: str) -> str:
    """Return what docs/tables.md says of a table: the docstrings of its class and of its fields."""
    source = ast.parse(Path(schema.__file__).read_text("utf-8"))
    kind = schema.TABLES[name].__name__
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


def test_a_new_column_of_links_is_one_declaration(
    result: arbo.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    circle = replace(result, link_rows=links)
    assert [step.id for step in circle.explain("d-0").path] == ["E1", "d-1", "d-0"]
