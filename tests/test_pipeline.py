"""The component of spaCy gives the answers of a linker, whatever the batches and processes."""

import sys
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from builders import files_in, sample_edges
from conftest import Sample

import arbo
from arbo.data.corpus import Corpus

spacy = pytest.importorskip("spacy")
from spacy.tokens import DocBin, Span  # noqa: E402
from spacy.util import filter_spans  # noqa: E402

from arbo.pipeline.component import SpacyLinker  # noqa: E402

FIELDS = ("entity", "score", "margin", "confidence", "candidates")


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Load the sample with some entities withheld, so that there are new ones."""
    documents, kb = arbo.load_sample()
    return documents, kb.changed(kb.entities[::2])


@pytest.fixture
def kb_file(sample: Sample, tmp_path: Path) -> Path:
    sample[1].to_jsonl(tmp_path / "kb.jsonl")
    return tmp_path / "kb.jsonl"


@pytest.fixture(scope="module")
def docs(sample: Sample) -> list[Any]:
    """Make a `Doc` of each document, with its mentions as entities and as the span group `all`."""
    docs = list(spacy.blank("en").pipe([document.text for document in sample[0]]))
    for doc, document in zip(docs, sample[0], strict=True):
        spans = [doc.char_span(m.start, m.end, m.type, alignment_mode="expand") for m in document.mentions]
        doc.set_ents(filter_spans(spans))
        doc.spans["all"] = spans
    return docs


def pipeline(kb: Path | None, **config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("arbo", config=config if kb is None else {"kb": str(kb), **config})
    return nlp


def told(docs: Iterable[Any], spans: Callable[[Any], Iterable[Any]] = lambda doc: doc.ents) -> list[list[Any]]:
    return [[(span.text, span.kb_id_, span._.arbo) for span in spans(doc)] for doc in docs]


def copies(docs: Iterable[Any]) -> list[Any]:
    return [doc.copy() for doc in docs]


def test_links_are_those_of_a_linker(sample: Sample, kb_file: Path, docs: list[Any]) -> None:
    own = {"entity_threshold": 0.3, "mention_threshold": 0.6}
    found = [span for doc in pipeline(kb_file, settings=own).pipe(copies(docs)) for span in doc.ents]
    result = arbo.Linker(sample[1], config=arbo.LinkerConfig(per_document=True, **own)).link(docs)
    assert len(found) == len(result.links) > 200
    by_path = 0
    for span, link in zip(found, result.links, strict=True):
        assert (span.text, span.kb_id_) == (link.mention.text, link.entity or "NIL")
        told = {**span._.arbo, "candidates": tuple(span._.arbo["candidates"].items())}
        assert {name: told[name] for name in FIELDS} == {name: getattr(link, name) for name in FIELDS}
        assert told["cluster"] == link.cluster.replace(f"{link.mention.document_id}:", "")
        path = [link.mention.text]
        while link.parent_is_mention:
            link = result.link_of(str(link.parent))
            path.insert(0, link.mention.text)
        assert told["path"] == ([link.parent, *path] if link.parent else [])
        by_path += len(path) > 1
    assert by_path
    assert {span._.arbo["entity"] is None for span in found} == {True, False}


def test_batches_and_processes_do_not_show(kb_file: Path, docs: list[Any]) -> None:
    nlp, docs = pipeline(kb_file), docs[:20]
    alone = told(nlp(doc) for doc in copies(docs))
    for how in ({"batch_size": 1}, {"batch_size": 7}, {}, {"batch_size": 5, "n_process": 2}):
        linked = list(nlp.pipe(copies(docs), **how))
        assert told(linked) == alone, how
        assert told(linked, lambda doc: doc.spans["arbo"]) == alone, how


@pytest.mark.slow
def test_processes_may_be_spawned(kb_file: Path, docs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS and Windows, where the component is sent to each process."""
    nlp = pipeline(kb_file)
    alone = told(nlp.pipe(copies(docs[:6])))
    monkeypatch.setattr("spacy.language.mp", get_context("spawn"))
    assert told(nlp.pipe(copies(docs[:6]), n_process=2, batch_size=3)) == alone


def test_spans_of_a_group_may_overlap(kb_file: Path, docs: list[Any]) -> None:
    doc = docs[0].copy()
    doc.ents = ()
    first = doc.spans["all"][0]
    doc.spans["all"] = [first, doc[first.start : first.end + 1], Span(doc, first.start, first.end, "Other")]
    linked = pipeline(kb_file, spans_key="all", settings={"map_types": "Vessel=Vessel"})(doc)
    assert [span.label_ for span in linked.spans["arbo"]] == ["Vessel", "", "Other"]
    entities = [span._.arbo["entity"] for span in linked.spans["arbo"]]
    assert [span.kb_id_ for span in linked.spans["arbo"]] == [entity or "NIL" for entity in entities]
    assert entities[0] != entities[2]  # the same words, but another type
    assert linked.ents == ()
    assert len(pipeline(kb_file, spans_key="missing")(docs[0].copy()).spans["arbo"]) == 0


def test_a_saved_pipeline_is_complete(kb_file: Path, docs: list[Any], tmp_path: Path) -> None:
    nlp = pipeline(kb_file, settings={"k": 2, "mention_threshold": None})
    expected = told(nlp.pipe(copies(docs)))
    nlp.to_disk(tmp_path / "nlp")
    kb_file.unlink()
    again = spacy.load(tmp_path / "nlp")
    assert told(again.pipe(copies(docs))) == expected
    again.to_disk(tmp_path / "nlp")
    assert told(spacy.load(tmp_path / "nlp").pipe(copies(docs[:3]))) == expected[:3]
    assert {Path(file).suffix for file in files_in(tmp_path / "nlp" / "arbo")} == {".json", ".npy", ".arrow"}


@pytest.mark.slow
def test_a_pipeline_keeps_its_models(sample: Sample, docs: list[Any], bert_folder: Path, tmp_path: Path) -> None:
    nlp = pipeline(None)
    nlp.get_pipe("arbo").linker = arbo.Linker(sample[1], str(bert_folder), edges=sample_edges())
    expected = told(nlp.pipe(copies(docs[:2])))
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp")
    assert again.get_pipe("arbo").linker.edges.settings == nlp.get_pipe("arbo").linker.edges.settings
    for own, before in zip(told(again.pipe(copies(docs[:2]))), expected, strict=True):
        assert [kb_id for _, kb_id, _ in own] == [kb_id for _, kb_id, _ in before]


def test_mistakes_are_told(sample: Sample, docs: list[Any], tmp_path: Path) -> None:
    (tmp_path / "arbo-linker.json").write_text('{"format": "arbo-linker", "format_version": 9}')

    def save(**parts: Any) -> None:
        (pipe := SpacyLinker()).linker = arbo.Linker(sample[1], **parts)
        pipe.to_disk(tmp_path / "pipe")

    for wrong, words in (
        (lambda: pipeline(None)(docs[0].copy()), "has no knowledge base; add the pipe with config="),
        (lambda: setattr(SpacyLinker(), "linker", arbo.Linker()), "needs a knowledge base"),
        (lambda: SpacyLinker(settings={"methd": "minimax"}), "did you mean 'method'"),
        (lambda: arbo.Linker(sample[1]).link(docs[0]), "put a single item into a list"),
        (lambda: save(encoder=arbo.VectorEncoder({}, {})), "cannot save the encoder VectorEncoder"),
        (lambda: save(reranker=lambda *_, **__: None), "cannot save the reranker FunctionReranker"),
        (lambda: SpacyLinker().from_disk(tmp_path), "a newer arbo wrote this"),
    ):
        with pytest.raises(arbo.ArboError, match=words):
            wrong()
    assert not (tmp_path / "pipe").exists()


def test_parts_of_documents_keep_their_links(kb_file: Path) -> None:
    nlp = pipeline(kb_file)
    doc = nlp.make_doc("ribbon kelp and comb kelp")
    doc.ents = [Span(doc, 0, 2, "A"), Span(doc, 3, 5, "A")]
    first, second = (span._.arbo for span in nlp(doc).ents)
    part = doc[3:5].as_doc(copy_user_data=True)
    assert [span._.arbo for span in part.ents] == [second] != [first]
    assert [span._.arbo for span in type(doc).from_docs([part, doc]).ents] == [second, first, second]


def test_an_invalid_document_is_an_error_and_an_empty_span_no_mention(kb_file: Path) -> None:
    nlp = pipeline(kb_file, spans_key="sc")
    docs = [nlp.make_doc(text) for text in ("ribbon kelp", "a \0 b", "comb kelp", "")]
    for doc in docs[:3]:
        doc.spans["sc"] = [doc[0:2], doc[0:0]]
    with pytest.raises(arbo.DataError, match="NUL"):
        list(nlp.pipe(docs))
    linked = list(nlp.pipe([docs[0], *docs[2:]]))
    assert [[span.text for span in doc.spans["arbo"]] for doc in linked] == [["ribbon kelp"], ["comb kelp"], []]


def test_documents_of_spacy_are_documents(docs: list[Any], tmp_path: Path) -> None:
    doc = docs[0].copy()
    doc.ents = [Span(doc, 0, 1, "A", kb_id="E1"), Span(doc, 1, 2, "C", kb_id="NIL"), Span(doc, 2, 3, "B", kb_id=" ")]
    expected, bin_ = [("A", ("E1",)), ("C", ()), ("B", None)], DocBin(docs=[doc, docs[1]])
    bin_.to_disk(tmp_path / "some.spacy")
    read = arbo.read_documents(tmp_path / "some.spacy")
    for corpus, name in ((Corpus.of([doc, docs[1]]), ""), (Corpus.of(bin_), ""), (read, "some:")):
        assert [(one.id, one.text) for one in corpus] == [(f"{name}0", doc.text), (f"{name}1", docs[1].text)]
        assert [(mention.type, mention.gold) for mention in corpus[0].mentions] == expected
        assert [mention.text for mention in corpus[1].mentions] == [span.text for span in docs[1].ents]
    (tmp_path / "some.spacy").write_bytes(b"\x80\x04nonsense")
    with pytest.raises(arbo.DataError, match=r"some.spacy: not a file of spaCy .*; write one with DocBin.to_disk"):
        arbo.read_documents(tmp_path / "some.spacy")


def test_a_small_file_that_grows_is_refused(docs: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without spaCy the extra is named."""
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    monkeypatch.setattr("arbo.formats.docbin.LARGEST_ARCHIVE", 1000)
    with pytest.raises(arbo.DataError, match=r"docs.spacy: the file unpacks to more than 0 MiB; write several"):
        arbo.read_documents(tmp_path / "docs.spacy")
    monkeypatch.setitem(sys.modules, "spacy.tokens", None)
    with pytest.raises(arbo.MissingDependency, match=r"pip install 'arbo\[spacy\]'"):
        arbo.read_documents(tmp_path / "docs.spacy")
