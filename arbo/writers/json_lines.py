"""Write JSON lines: documents for `arbo.readers.jsonl`, or clusters for `arbo score`."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from arbo.data import Corpus, Document
from arbo.files import PathLike, write_lines


def write_jsonl(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write documents; the format holds everything."""
    Corpus.of(documents).to_jsonl(path)
    return Counter()


def write_clusters(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write `{"mentions": [mention ids]}` for each cluster of mentions with the same gold ids or gold cluster."""
    clusters: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for mention in (mention for document in documents for mention in document.mentions):
        clusters[frozenset(mention.labels or ())].append(mention.id)
    notes = Counter({"mentions without an id left out": len(clusters.pop(frozenset(), ()))})
    write_lines((json.dumps({"mentions": ids}, ensure_ascii=False) for ids in clusters.values()), path)
    return notes
