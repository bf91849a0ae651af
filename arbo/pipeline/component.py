"""The component ``arbo`` of a spaCy pipeline: it links the entities, or the spans of a span group, of each `Doc`.

It sets ``ent.kb_id_`` of entities (``NIL`` without an entity in the knowledge base), writes all linked spans with their
ids to ``doc.spans["arbo"]``, where spans may overlap, and gives each span ``span._.arbo``, a dict:

- ``entity, name, score, margin, confidence``: see `arbo.results.run.Link`;
- ``cluster``: the entity's id or, for all spans of a discovered entity, ``new-`` and the offsets of the first of them;
- ``candidates``: the ids of the nearest entities with their similarities, nearest first;
- ``path``: the id of the entity and the texts of the mentions on the way to this one; empty for NIL.

Each document is a graph of its own, so that batches and processes change nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import minibatch

import arbo
from arbo.data import Corpus, KnowledgeBase
from arbo.data.spacy_docs import NIL, document_of_doc, spans_of
from arbo.encoders.by_name import encoder_of
from arbo.encoders.index import build_index
from arbo.encoders.ngrams import NgramEncoder
from arbo.errors import UsageError
from arbo.files import Format, PathLike, write_json
from arbo.formats import read_knowledge_base
from arbo.linker import Linker
from arbo.linking.config import LinkerConfig
from arbo.results.result import Result
from arbo.settings import read_json

NAME = "arbo"  # the name of the component, of its span group and of its extension attribute
_MANIFEST = "arbo-linker.json"
_FORMAT = Format("arbo-linker", 1, {"config": dict, "parts": list}, "a linker", "save the pipeline again")


class SpacyLinker:
    """Links the spans of each `Doc` by a `Linker`, which is made when it is first needed.

    Args:
        nlp, name: unused; spaCy gives both.
        kb: the knowledge base, in any format of `arbo.formats`; None if `linker` is set, or loaded by `from_disk`.
        encoder: the name of the encoder, see `Linker`.
        settings: fields of `LinkerConfig`, such as the ``config`` of a file of `arbo tune`.
        spans_key: the span group to link; None for ``doc.ents``.
    """

    def __init__(
        self,
        nlp: Language | None = None,
        name: str = NAME,
        *,
        kb: str | None = None,
        encoder: str = "ngram",
        settings: dict[str, Any] | None = None,
        spans_key: str | None = None,
    ) -> None:
        self.config = LinkerConfig.from_dict(settings or {})
        self.kb, self.encoder, self.spans_key = kb, encoder, spans_key
        self._linker: Linker | None = None

    @property
    def linker(self) -> Linker:
        """The linker; set it to use another one. Raise UsageError if there is no knowledge base."""
        if self._linker is None:
            if self.kb is None:
                remedy = 'add the pipe with config={"kb": "path"}, or set the attribute `linker` of the pipe'
                raise UsageError(f"the pipe {NAME!r} has no knowledge base; {remedy}")
            self.linker = Linker(read_knowledge_base(self.kb), encoder_of(self.encoder), self.config)
        assert self._linker is not None
        return self._linker

    @linker.setter
    def linker(self, linker: Linker) -> None:
        if linker.kb is None:
            raise UsageError("the linker of a pipe needs a knowledge base: use Linker(kb)")
        self._linker = linker.configured(config=replace(linker.config, per_document=True))

    def __call__(self, doc: Doc) -> Doc:
        """Link the spans of one `Doc`."""
        return self._link([doc])[0]

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Link the spans of `Doc`s, many at once; raise DataError for an invalid one."""
        for docs in minibatch(stream, batch_size):
            yield from self._link(docs)

    def to_disk(self, path: PathLike, *, exclude: Iterable[str] = ()) -> None:
        """Write the linker with its knowledge base and models to a folder; only files of an earlier one are replaced.

        Raise UsageError if the folder cannot be written, or the encoder or the reranker is the user's own.
        """
        folder, linker = Path(path), self.linker
        models: dict[str, Any] = {"encoder": linker.encoder, "reranker": linker.reranker, "edges": linker.edges}
        if isinstance(linker.encoder, NgramEncoder) and linker.encoder.settings == NgramEncoder().settings:
            del models["encoder"]
        savers: dict[str, Any] = {}
        for name, part in models.items():
            if part is not None:
                savers[name] = getattr(part, "save" if name == "edges" else "save_pretrained", None)
                if savers[name] is None:
                    raise UsageError(f"a pipe cannot save the {name} {type(part).__name__}; set `linker` after loading")
        assert linker.kb is not None
        build_index(linker.kb, folder / "index", encoder=linker.encoder, announce=linker.announce)
        for name, save in savers.items():
            save(folder / name)
        write_json(_FORMAT.head | {"parts": list(savers), "config": linker.config.as_dict()}, folder / _MANIFEST)

    def from_disk(self, path: PathLike, *, exclude: Iterable[str] = ()) -> Self:
        """Read the linker that `to_disk` wrote; raise DataError if it is missing, damaged or of a newer arbo."""
        folder = Path(path)
        content = _FORMAT.checked(read_json(folder / _MANIFEST, "the linker"), folder / _MANIFEST)
        parts = content["parts"]
        config = LinkerConfig.from_dict(content["config"], file=str(folder / _MANIFEST))
        encoder: Any = folder / "encoder" if "encoder" in parts else NgramEncoder()
        reranker = arbo.CrossEncoder.from_pretrained(folder / "reranker") if "reranker" in parts else None
        edges: Any = folder / "edges" if "edges" in parts else None
        kb = KnowledgeBase.from_index(folder / "index")
        self.linker = Linker(kb, encoder, config, reranker=reranker, edges=edges)
        return self

    def _link(self, docs: list[Doc]) -> list[Doc]:
        corpus = Corpus([document_of_doc(str(row), doc, self.spans_key) for row, doc in enumerate(docs)])
        links = iter(_links(self.linker.link(corpus)) if corpus.mentions else ())
        for doc in docs:
            spans = [_linked(doc, span, next(links)) for span in spans_of(doc, self.spans_key)]
            doc.spans[NAME] = spans
            if self.spans_key is None:
                for span in spans:
                    for token in span:
                        token.ent_kb_id = span.kb_id
        return docs


def _key(span: Span) -> tuple[str, str, int, int]:
    return "._.", NAME, span.start_char, span.end_char  # a key of spaCy's own, which it moves to parts of documents


def _link_of(span: Span) -> Any:
    """Return the link of a span, a dict; None if the component did not link the span."""
    return span.doc.user_data.get(_key(span), {}).get(span.label_)


def _linked(doc: Doc, span: Span, link: dict[str, Any]) -> Span:
    """Return a span with the id of its entity, after writing its link to the document."""
    doc.user_data.setdefault(_key(span), {})[span.label_] = link
    return Span(doc, span.start, span.end, label=span.label, kb_id=link["entity"] or NIL, span_id=span.id)


def _links(result: Result) -> Iterator[dict[str, Any]]:
    """Yield the link of each mention, with values that spaCy can store."""
    links = list(result.links)
    for row, link in enumerate(links):
        is_nil, path = link.entity is None, result.path_of(row)
        yield {
            "entity": link.entity,
            "name": link.entity_name,
            "score": link.score,
            "margin": link.margin,
            "confidence": link.confidence,
            "cluster": f"new-{link.cluster[len(f'new-{link.mention.document_id}:') :]}" if is_nil else link.cluster,
            "candidates": dict(link.candidates),
            "path": [] if is_nil else [links[path[0]].parent, *(links[at].mention.text for at in path)],
        }


Language.factory(NAME, assigns=["token.ent_kb_id", f"span._.{NAME}"], func=SpacyLinker)
if not Span.has_extension(NAME):
    # An attribute with a value of spaCy's own would be the same for two spans that differ only in their labels.
    Span.set_extension(NAME, getter=_link_of)
