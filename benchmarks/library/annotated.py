"""Corpora with gold clusters, as domains of one corpus, so that one edge model is trained on several."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import arbo
from arbo.data.corpus import Corpus
from arbo.data.documents import Document
from arbo.data.fingerprint import learnt_from
from arbo.edges.features import MENTION_FEATURES
from library.folders import DATA

Parts = Mapping[str, Corpus]
"""The parts ``train``, ``dev`` and ``test``; each text is in one of them."""
PARTS = ("train", "dev", "test")
_NO_ENTITY = frozenset({"", "QUANTITY", "DATETIME", "<NIL>"})
_PERSONS, _FIRMS, _PLACES = (
    {"person", "hum", "pers", "per", "q215627"},
    {"organization", "org", "q43229"},
    {"place", "loc"},
)
_NAMED = {*_PERSONS, *_FIRMS, *_PLACES, "q27096213"}
_PRONOUNS = frozenset(["i", "you", "he", "she", "it", "we", "they", "his", "her", "its", "their", "him", "them", "who"])


def token_tables(folder: str, stem: str, format_: str) -> Callable[[Path], Parts]:
    """Return a function that reads the layout of ECB+, a file for each part."""

    def read(data: Path) -> Parts:
        files = {part: data / folder / f"{stem}_{part}_corpus.txt" for part in ("Train", "Dev", "Test")}
        if stem == "GUM":
            files = {part: data / folder / f"{stem}_{part.lower()}_corpus.txt" for part in files}
        return {part.lower(): arbo.read_documents(file, format_) for part, file in files.items()}

    return read


def wiki_fair(data: Path) -> Parts:
    """Read Wiki-Fair; seven of ten articles train, one is for development, and two test."""
    documents = []
    for line in (data / "wiki_fair/wiki-fair-v2.benchmark.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        mentions, seen = [], set()
        for label in row["labels"]:
            span = tuple(label["span"])
            if label["entity_id"] not in _NO_ENTITY and "parent" not in label and span not in seen:
                seen.add(span)
                kind = label["type"].split("|")[-1]
                mentions.append({"spans": [list(span)], "entities": [label["entity_id"]], "type": kind})
        documents.append({"id": str(row["id"]), "text": row["text"], "mentions": mentions})
    every = Corpus.of(documents)
    cut = [len(every) * tenths // 10 for tenths in (0, 7, 8, 10)]
    return {part: every[begin:end] for part, begin, end in zip(PARTS, cut, cut[1:], strict=False)}


def hipe(*folders: str) -> Callable[[Path], Parts]:
    """Return a function that reads folders of HIPE; each is a domain, and only mentions with a QID are annotated."""

    def read(data: Path) -> Parts:
        parts: dict[str, list[Document]] = {part: [] for part in PARTS}
        for folder in folders:
            for file in sorted((data / "hipe2022" / folder).glob("*.tsv.gz")):
                part = next(part for part in PARTS if f"-{part}" in file.name)
                own = Corpus(_linked(arbo.read_documents(file, "hipe")))
                parts[part] += of_domain(folder, own)
        return {part: Corpus(documents) for part, documents in parts.items()}

    return read


def _linked(documents: Iterable[Document]) -> Iterable[Document]:
    """Leave out the mentions without an entity."""
    return (replace(d, mentions=tuple(m for m in d.mentions if m.gold)) for d in documents)


def of_domain(domain: str, documents: Iterable[Document]) -> list[Document]:
    """Return documents of a domain, with its name in their ids."""
    return [
        replace(
            d,
            id=f"{domain}/{d.id}",
            domain=domain,
            mentions=tuple(replace(m, id=f"{domain}/{m.id}", document_id=f"{domain}/{d.id}") for m in d.mentions),
        )
        for d in documents
    ]


def names_alone(documents: Corpus, most: int = 1) -> Corpus:
    """Return the distinct names of persons, organisations and places, each in a document of its own.

    Of the mentions with the same text and gold ids, at most ``most`` count. Mentions without a gold id, pronouns, and
    texts whose first letter or head is not a capital are left out, since they are no names.
    """
    rows: list[dict[str, object]] = []
    count: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for m in documents.mentions:
        words = re.findall(r"\w+", m.text)
        capital = bool(words) and words[0][0].isupper() and words[-1][:1].isupper()
        if m.gold and capital and (m.type or "").lower() in _NAMED and m.text.lower() not in _PRONOUNS:
            spans = [{"spans": [[0, len(m.text)]], "entities": list(m.gold)}]
            count[m.text, m.gold] += 1
            if count[m.text, m.gold] <= most:
                rows.append({"id": f"{len(rows)}", "text": m.text, "mentions": spans})
    return Corpus.of(rows)


CORPORA: Mapping[str, Callable[[Path], Parts]] = {
    "GUM": token_tables("gum", "GUM", "ecbplus"),
    "ECB+ entities": token_tables("ecbplus", "ECB", "ecbplus"),
    "ECB+ events": token_tables("ecbplus", "ECB", "ecbplus-events"),
    "Wiki-Fair": wiki_fair,
    "HIPE": hipe("ajmc/en"),
    "HIPE, other languages": hipe("newseye/de", "newseye/fr", "newseye/fi", "newseye/sv", "sonar/de"),
}
"""Readers of corpora by name, each from the folder of all data."""


LICENSED = ("GUM", "ECB+ entities", "ECB+ events", "Wiki-Fair")
"""The corpora that models for English learn from: their licences (CC BY, CC BY-SA, Apache 2.0) allow it, and the
model holds numbers of trees and no text. HIPE is not among them: as a whole it is announced for non-commercial use."""


def train_english(learnt: Iterable[str], data: Path = DATA) -> arbo.EdgeModel:
    """Train a model for English on these corpora: on their training parts, calibrated on their development parts.

    It knows the documents of all their parts, since those of the test parts are of the same kind.
    """
    corpora = {name: CORPORA[name](data) for name in learnt}
    model = arbo.train_edges(joined(corpora, "train"), joined(corpora, "dev"))
    return replace(model, learnt=documents_of(corpora))


def documents_of(corpora: Mapping[str, Parts]) -> str:
    """Return the hashes of the documents of all parts of corpora, see `arbo.data.fingerprint`."""
    every = (of_domain(name, parts[part]) for name, parts in corpora.items() for part in PARTS)
    return learnt_from(Corpus(chain.from_iterable(every)).tables)


ACROSS = 2.0
"""Added to the log-odds of pairs across documents in a model for English: on a corpus that a model has not seen,
these probabilities are too low. Chosen on the corpora that it learns from, each left out once, by CoNLL."""


def raised(model: arbo.EdgeModel, by: float = ACROSS) -> arbo.EdgeModel:
    """Return a model that adds ``by`` to the log-odds of pairs of mentions across documents: by one tree more.

    The tree asks for the distance in sentences, which is missing for mentions of different documents.
    """
    trees, n = model.mentions, len(model.mentions.feature)
    more = {
        "feature": [MENTION_FEATURES.index("sentences"), -1, -1],
        "threshold": [1e9, 0.0, 0.0],
        "left": [n + 1, 0, 0],
        "right": [n + 2, 0, 0],
        "missing_left": [False] * 3,
        "value": [0.0, 0.0, by / trees.slope],
        "roots": [n],
    }
    arrays: list[Any] = [*trees[:7]]
    columns: dict[str, Any] = {
        name: np.append(column, np.array(more[name], column.dtype))
        for name, column in zip(trees._fields, arrays, strict=False)
    }
    return replace(model, mentions=trees._replace(**columns))


def joined(corpora: Mapping[str, Parts], part: str) -> Corpus:
    """Return a part of several corpora as one corpus; each corpus is a domain, and its names alone are another.

    Names that two mentions share are there twice: otherwise equal texts would mean the same nowhere.
    """
    documents: list[Document] = []
    for name, parts in corpora.items():
        documents += of_domain(name, parts[part])
        documents += of_domain(f"{name}, names", names_alone(parts[part], most=2))
    return Corpus(documents)
