"""Duplicates in tables of entities: `arbo.resolve` beside equal names, fuzzy names and embeddings.

Three tables, from the names and gold ids of Wiki-Fair, HIPE-2022 (newspapers and commentaries in five languages) and
GUM, each divided into two halves by entity, see `benchmarks/library/duplicates.py`. The base row of an entity has its
most frequent name, its type, and the sentence of a mention. A duplicate has another name, made by one of these rules,
and the sentence of another mention: *case* (all capitals or none), *order* (last word first), *initials* (of all words
but the last), *abbreviation* (the capitals of a name that is no person's), *transliteration* (one other spelling of a
sound, no accents), *nickname* (from a list of 90), *typo* (one letter changed, doubled or swapped), *description*
("the town of X"); *as written* is no rule, but another name of the entity in the corpus. *homonym*: two entities with
one name and type; where the corpus has none, an entity gets the name of another one in its name and sentence. Each
entity has one kind, the rarest so far of those that apply. A table has at most 60 entities of a kind, and 300 with one
row.

Every system compares rows of one type only. *exact*: equal names, as GraphRAG and LightRAG merge; *lower case*: equal
but for case and accents; *WRatio* is the `FuzzyMatchResolver` of neo4j-graphrag (rapidfuzz), *token sort* the better
ratio of rapidfuzz for names; *MiniLM* is the cosine of all-MiniLM-L6-v2, of names or of names with texts; *n-grams*
that of arbo's default encoder. Their rows are the connected components of pairs above a threshold, that with the best
pairwise F1 on the development halves of all tables. `arbo.resolve` has its default threshold; its model learnt from
the development halves of Wiki-Fair and GUM, so that HIPE is a corpus, and mostly of languages, that it has not seen.
*without* leaves one kind out of the training, and tells the scores of this kind.

**by kind**: the test halves of all tables together. Precision, recall and F1 of pairs with a row of the kind, and the
B-cubed F1 of rows of the kind. Of homonyms, *apart* is the share of pairs of one name and two entities that are apart.

`--model FILE` makes the model that arbo ships, the same file each time, and stops.
Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from library.annotated import CORPORA, hipe
from library.cells import Cells, hashed, key
from library.command import parser_of
from library.duplicates import KINDS, MOST, SINGLE, Row, tables
from library.folders import CACHE, DATA
from library.results import Figures, Tables, record, say
from rapidfuzz import fuzz, process, utils
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.preprocessing import normalize

import arbo
from arbo.data.corpus import Corpus
from arbo.data.inputs import mention_inputs
from arbo.edges.trees import Trees
from arbo.encoders.by_name import encoder_of
from arbo.encoders.encoder import Encoder
from arbo.encoders.ngrams import NgramEncoder
from arbo.files import write_json
from arbo.resolving.features import Rows
from arbo.resolving.model import FORMAT, NEIGHBORS, RowEdges
from arbo.resolving.resolution import THRESHOLD, row_documents
from arbo.text.names import normalize_name

READERS = {
    "Wiki-Fair": CORPORA["Wiki-Fair"],
    "HIPE": hipe(*(f"ajmc/{of}" for of in ("en", "de", "fr")), *(f"newseye/{of}" for of in ("de", "fr", "fi", "sv"))),
    "GUM": CORPORA["GUM"],
}
COLUMNS = "title", "type", "description"
LEARNT = ("Wiki-Fair", "GUM")
TREES, LEAVES = 60, 8
Labels = npt.NDArray[np.integer[Any]]
Table = list[Row]


@cache
def halves(name: str) -> tuple[Table, Table]:
    """Make the development table and the test table of a corpus."""
    return tables(Corpus(document for part in READERS[name](DATA).values() for document in part))


def frame(rows: Iterable[Row], *, texts: bool = True) -> list[dict[str, str]]:
    """Return what a system sees."""
    return [{"title": row.name, "type": row.type, "description": row.text if texts else ""} for row in rows]


@cache
def examples(name: str, texts: bool) -> tuple[npt.NDArray[Any], ...]:
    """Return the features of pairs of a development table, whether each is right, and the kinds of both rows."""
    rows = halves(name)[0]
    linker = arbo.Linker(config=arbo.LinkerConfig(k=NEIGHBORS))
    found = linker.retrieve(row_documents(frame(rows, texts=texts), COLUMNS, 0), k=NEIGHBORS, discover=True)
    parts = Rows.of(found.inputs)
    first, second = parts.pairs(found.mentions)
    kinds, entities, types = (np.array([getattr(row, of) for row in rows]) for of in ("kind", "entity", "type"))
    kept = types[first] == types[second]
    first, second = first[kept], second[kept]
    return parts.features(first, second), entities[first] == entities[second], kinds[first], kinds[second]


def learn(left_out: str = "") -> RowEdges:
    """Train a model on development tables, without pairs of the rows of one kind.

    Each table teaches with its texts, and again without texts and homonyms, which nothing else tells apart.
    """
    features, correct = [], []
    for name, texts in product(LEARNT, (True, False)):
        every, right, *kinds = examples(name, texts)
        without = [kind for kind in (left_out, "" if texts else "homonym") if kind]
        kept = ~np.isin(kinds, without).any(axis=0)
        features.append(every[kept])
        correct.append(right[kept])
    trees = Trees.fit(np.concatenate(features), np.concatenate(correct), trees=TREES, leaves=LEAVES)
    return RowEdges(trees, None, {"tables": list(LEARNT), "pairs": sum(map(len, correct))})


def resolved(rows: Table, edges: RowEdges | None = None, *, texts: bool = True) -> Labels:
    """Return the entity that `arbo.resolve` finds for each row, with its model or with another one."""
    if edges is None:
        return np.array(arbo.resolve(frame(rows, texts=texts), *COLUMNS).result.cluster_rows)
    linker = replace(arbo.resolve(frame(rows[:1]), *COLUMNS).linker, edges=edges)
    return np.array(linker.discover(row_documents(frame(rows), COLUMNS, 0)).cluster_rows)


def _by_encoder(encoder: Encoder, rows: Table, texts: bool) -> npt.NDArray[Any]:
    told = [f"{row.name}: {row.text}" if texts else row.name for row in rows]
    inputs = mention_inputs(Corpus.of(told), expand_abbreviations=False)
    file = CACHE / "resolve" / f"{hashed([told, encoder.settings])}.npy"
    if file.exists():
        vectors = np.load(file)
    else:
        fitted = encoder.fit([item.name for item in inputs])
        matrix: Any = fitted.encode_mentions(inputs).taken(np.arange(len(rows)))
        vectors = matrix.matrix[matrix.row]
        if isinstance(vectors, np.ndarray):
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors)
    vectors = normalize(vectors)
    cosines = vectors @ vectors.T
    return np.asarray(cosines.toarray() if hasattr(cosines, "toarray") else cosines)


def _by_ratio(scorer: Any, rows: Table) -> npt.NDArray[Any]:
    names = [utils.default_process(row.name) for row in rows]
    return np.asarray(process.cdist(names, names, scorer=scorer, dtype=np.float32)) / 100


def _equal(keys: Sequence[str]) -> npt.NDArray[Any]:
    names = np.array(keys)
    return np.asarray(names[:, None] == names, np.float32)


PEERS: Mapping[str, Callable[[Table], npt.NDArray[Any]]] = {
    "exact": lambda rows: _equal([row.name for row in rows]),
    "lower case": lambda rows: _equal([normalize_name(row.name) for row in rows]),
    "WRatio": partial(_by_ratio, fuzz.WRatio),
    "token sort": partial(_by_ratio, fuzz.token_sort_ratio),
    "MiniLM, names": lambda rows: _by_encoder(encoder_of("all-MiniLM-L6-v2"), rows, False),
    "MiniLM, names and texts": lambda rows: _by_encoder(encoder_of("all-MiniLM-L6-v2"), rows, True),
    "n-grams": lambda rows: _by_encoder(NgramEncoder(), rows, False),
}
"""Similarities of all pairs of rows, (rows, rows)."""


def merged(similarity: npt.NDArray[Any], rows: Table, threshold: float) -> Labels:
    """Return the connected components of pairs of one type above a threshold."""
    types = np.array([row.type for row in rows])
    joined = (similarity >= threshold) & (types[:, None] == types)
    return np.asarray(connected_components(csr_matrix(joined), directed=False)[1])


def pairs(labels: Iterable[Any]) -> set[tuple[int, int]]:
    """Return the pairs of rows that have one label."""
    rows_of: dict[Any, list[int]] = defaultdict(list)
    for row, label in enumerate(labels):
        rows_of[label].append(row)
    return {pair for rows in rows_of.values() for pair in combinations(rows, 2)}


def scores(found: Mapping[str, Labels], half: int) -> dict[str, dict[str, float]]:
    """Score labels of the rows of every table, by kind and for ``all`` rows."""
    count: dict[str, Counter[str]] = defaultdict(Counter)
    for name, labels in found.items():
        rows = halves(name)[half]
        got, right = pairs(labels.tolist()), pairs(row.entity for row in rows)
        namesakes = pairs((row.name, row.type) for row in rows) - right
        many = {"right": got & right, "got": got, "gold": right, "joined": got & namesakes, "namesakes": namesakes}
        for what, some in many.items():
            for pair in some:
                for kind in {"all", *(rows[row].kind for row in pair)}:
                    count[kind][what] += 1
        for kind, value in _b_cubed(rows, labels):
            for of in ("all", kind):
                count[of].update({"rows": 1, **{f"b {side}": share for side, share in value.items()}})
    return {kind: _ratios(count[kind]) for kind in ("all", *KINDS)}


def f1(found: Mapping[str, Labels], half: int) -> float:
    """Return the F1 of all pairs, counted by the sizes of groups."""
    right = sides = 0
    for name, labels in found.items():
        entities = [row.entity for row in halves(name)[half]]
        sizes = [
            Counter(groups).values()
            for groups in (zip(labels.tolist(), entities, strict=True), labels.tolist(), entities)
        ]
        both, got, gold = (sum(size * (size - 1) for size in some) for some in sizes)
        right, sides = right + both, sides + got + gold
    return 2 * right / max(sides, 1)


def _b_cubed(rows: Table, labels: Labels) -> Iterator[tuple[str, dict[str, float]]]:
    entities = np.unique([row.entity for row in rows], return_inverse=True)[1]
    both = Counter(zip(labels.tolist(), entities.tolist(), strict=True))
    sizes, truth = Counter(labels.tolist()), Counter(entities.tolist())
    for row, label, entity in zip(rows, labels.tolist(), entities.tolist(), strict=True):
        same = both[label, entity]
        yield row.kind, {"precision": same / sizes[label], "recall": same / truth[entity]}


def _ratios(of: Mapping[str, float]) -> dict[str, float]:
    precision, recall = (of["b precision"] / max(of["rows"], 1), of["b recall"] / max(of["rows"], 1))
    return {
        "precision": of["right"] / max(of["got"], 1),
        "recall": of["right"] / max(of["gold"], 1),
        "F1": 2 * of["right"] / max(of["got"] + of["gold"], 1),
        "B-cubed": 2 * precision * recall / max(precision + recall, 1e-9),
        "apart": 1 - of["joined"] / max(of["namesakes"], 1),
    }


def at_best(peer: str) -> tuple[float, dict[str, Labels]]:
    """Return the threshold of a peer that is best on the development halves, and its labels of the test halves."""
    similar = {(name, half): PEERS[peer](halves(name)[half]) for name in READERS for half in (0, 1)}
    tried = [1.0] if peer in ("exact", "lower case") else np.arange(0.5, 1.0, 0.02).tolist()

    def labels(half: int, at: float) -> dict[str, Labels]:
        return {name: merged(similar[name, half], halves(name)[half], at) for name in READERS}

    best = max(tried, key=lambda at: f1(labels(0, at), 0))
    return best, labels(1, best)


def measured(system: str) -> dict[str, Any]:
    """Score a system on the test halves, by kind and by corpus, at its threshold."""
    threshold = THRESHOLD
    if system in PEERS:
        threshold, found = at_best(system)
    elif system in OWN:
        found = {name: resolved(halves(name)[1], texts=OWN[system]) for name in READERS}
    else:
        model = learn(system.removeprefix(WITHOUT))
        found = {name: resolved(halves(name)[1], model) for name in READERS}
    corpora = {name: scores({name: labels}, 1)["all"] for name, labels in found.items()}
    return {"threshold": threshold, "kinds": scores(found, 1), "corpora": corpora}


OWN = {"arbo.resolve, names": False, "arbo.resolve": True}
WITHOUT = "arbo.resolve without "
SYSTEMS = (*PEERS, *OWN, *(f"{WITHOUT}{kind}" for kind in KINDS))
CELLS = Cells("resolve", lambda cell: [cell["system"], RowEdges.default().settings, KINDS, MOST, SINGLE])


def main() -> None:
    """Measure every system and record all; with `--model`, make the model instead."""
    parser = parser_of(__doc__)
    parser.add_argument("--model", type=Path, metavar="FILE", help="train the model, write it, and stop")
    if file := parser.parse_args().model:
        model = learn()
        header = {"format": FORMAT.name, "format_version": FORMAT.version}
        write_json({**header, "trained": model.trained, "trees": model.mentions.as_dict()}, file)
        return
    for system in SYSTEMS:
        CELLS.keep({"system": system}, lambda _, system=system: measured(system))  # type: ignore[misc]
    kept = sorted(CELLS.read(), key=lambda cell: SYSTEMS.index(cell["system"]))
    out: Tables = {"by kind": [], "by corpus": []}
    figures: Figures = {}
    for cell in kept:
        system, at = cell["system"], {"system": cell["system"], "threshold": cell["threshold"]}
        for kind, row in cell["kinds"].items():
            told = {name: row[name] for name in row if name != "apart" or kind in ("all", "homonym")}
            if not system.startswith(WITHOUT) or kind == system.removeprefix(WITHOUT):
                out["by kind"].append({**at, "kind": kind, **told})
                figures |= {key(system, kind, name): value for name, value in told.items()}
        for name, row in cell["corpora"].items():
            out["by corpus"].append({**at, "corpus": name, "rows": len(halves(name)[1]), **row})
    say(f"{len(figures)} figures")
    record("resolve", figures, out, cells=kept)


if __name__ == "__main__":
    main()
