"""The names model that arbo ships, and how well such a model does on corpora that it has not seen.

`python benchmarks/names_model.py --write` makes `arbo/edges/names.json`, the same file each time.

It learns from the names of persons, organisations and places in the training and development parts of GUM, ECB+ and
Wiki-Fair, from the synonyms of UBERON, CL and the Disease Ontology, and from made lists (`library/named_lists.py`).
Their licences (CC BY, CC BY-SA, CC0, Apache 2.0) allow it, and the model holds numbers of trees and no text. A list
weighs as the square root of its size, and the names of texts three times as much. The threshold is that which is best
on average for the parts of the table.

**left_out**: pairwise F1 of all rows of the training and development parts of corpora, by models that have seen neither
them nor other parts of their corpus, at thresholds of average linkage. **reliability**: the pairs of their training
parts in five groups of equal size by the probability that the model gives them, and the share of right pairs.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from library.annotated import CORPORA, names_alone
from library.folders import DATA
from library.named_lists import KINDS, NamedList, capitalised, made_list, synonyms_of
from library.results import Row, Tables, collected_rows, record

import arbo
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.edges.name_pairs import differ
from arbo.edges.names_model import ComparedNames, NamesModel
from arbo.edges.trees import Trees
from arbo.engine import Bools, Floats
from eval import clustering_scores

TEXTS = ("GUM", "ECB+ entities", "Wiki-Fair")
ONTOLOGIES = {
    "UBERON": "craft/ontologies/UBERON.obo.gz",
    "CL": "craft/ontologies/CL.obo.gz",
    "Disease Ontology": "disease_ontology/HumanDO_2015-11-11.obo.gz",
}
OF_TEXTS, MOST_PAIRS, TREES, LEAVES = 3.0, 8_000, 100, 15
THRESHOLDS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
OUT = Path(arbo.__file__).parent / "edges" / "names.json"


class Pairs(NamedTuple):
    """The pairs of a list that the model may join, those drawn by a hash of both names, and whether each is right."""

    features: Floats
    right: Bools


@cache
def texts(corpus: str, part: str) -> NamedList:
    """Return the names of a part of a corpus."""
    names = names_alone(CORPORA[corpus](DATA)[part])
    return NamedList([mention.text for mention in names.mentions], Gold.of(names).classes.tolist())


@cache
def lists() -> Mapping[str, NamedList]:
    """Return the lists that do not come from texts."""
    words = capitalised([name for corpus in TEXTS for name in texts(corpus, "train").names])
    sizes = ((400, 0.6), (400, 0.9), (3000, 0.6), (3000, 0.9), (12000, 0.6))
    made = {
        f"{kind} {n} {skew}": made_list(kind, n, place * len(sizes) + seed, words, skew)
        for place, kind in enumerate(KINDS)
        for seed, (n, skew) in enumerate(sizes)
    }
    for name, file in ONTOLOGIES.items():
        kb = arbo.read_knowledge_base(DATA / file)
        made[name] = synonyms_of(((entity.name, *entity.aliases) for entity in kb), 6000, 1)
    return made


def pairs_of(some: NamedList) -> Pairs:
    """Compare the names of a list, and know the right pairs."""
    clusters: dict[str, set[int]] = {}
    for name, cluster in zip(*some, strict=True):
        clusters.setdefault(name, set()).add(cluster)
    of_list = arbo.Linker(config=arbo.LinkerConfig().of_list())
    near = of_list.retrieve(Corpus.of(some.names), k=NamesModel.neighbors, in_order=True)
    compared = ComparedNames.of(near)
    names = near.inputs.taken(compared.rows).names
    first, second = compared.pairs()
    right = [
        bool(clusters[names[a]] & clusters[names[b]]) for a, b in zip(first.tolist(), second.tolist(), strict=True)
    ]
    features = compared.table.features(first, second, compared.lists)
    may = np.flatnonzero(~differ(features))
    ends = zip(first[may].tolist(), second[may].tolist(), strict=True)
    draw = [blake2b(f"{names[a]}\n{names[b]}".encode()).digest() for a, b in ends]
    chosen = may[np.argsort(draw)[:MOST_PAIRS]]
    return Pairs(features[chosen], np.array(right)[chosen])


@cache
def known(name: str, part: str = "") -> Pairs:
    """Return the pairs of a list, or of a part of a corpus."""
    return pairs_of(texts(name, part) if part else lists()[name])


def fitted(without: str = "") -> Trees:
    """Fit trees to all lists but those of one corpus."""
    sets = [(known(name), 1.0) for name in lists()]
    sets += [(known(name, part), OF_TEXTS) for name in TEXTS if name != without for part in ("train", "dev")]
    features, right = (np.concatenate(some) for some in zip(*(pairs for pairs, _ in sets), strict=True))
    weight = np.concatenate([np.full(len(pairs.right), of / np.sqrt(len(pairs.right))) for pairs, of in sets])
    return Trees.fit(features, right, trees=TREES, leaves=LEAVES, weight=weight / weight.mean())


def f1(some: NamedList, model: NamesModel, threshold: float) -> float:
    """Return the pairwise F1 of a list."""
    config = arbo.LinkerConfig(treat_as="list", mention_threshold=threshold)
    linker = arbo.Linker(config=config.of_list(), edges=model)
    clusters = linker.discover(some.names).link_table["cluster_id"].combine_chunks().dictionary_encode().indices
    return clustering_scores(np.array(some.clusters), clusters)["pairwise"]["f1"]


def left_out() -> Iterator[tuple[str, Row]]:
    """Rows of both tables."""
    whole = fitted()
    for corpus in (*TEXTS, "HIPE", "HIPE, other languages"):
        trees = fitted(corpus) if corpus in TEXTS else whole
        for part in ("train", "dev"):
            of_thresholds = {f"{t}": f1(texts(corpus, part), NamesModel(trees, t), t) for t in THRESHOLDS}
            yield "left_out", {"corpus": corpus, "part": part, **of_thresholds}
        pairs = known(corpus, "train")
        probability = 1 / (1 + np.exp(-trees.scores(pairs.features)))
        some = np.flatnonzero(probability > 0.02)
        for group in np.array_split(some[np.argsort(probability[some])], 5):
            row = {"corpus": corpus, "pairs": len(group), "probability": float(probability[group].mean())}
            yield "reliability", {**row, "right": float(pairs.right[group].mean())}


def write(threshold: float) -> None:
    """Write the model."""
    content = {"format": "arbo-names", "threshold": threshold, "trees": rounded(fitted().as_dict())}
    OUT.write_text(json.dumps(content, separators=(",", ":")) + "\n", "utf-8")


def rounded(trees: dict[str, Any]) -> dict[str, Any]:
    """Return trees with numbers of nine digits, which keeps the file small."""
    return {
        name: [float(f"{v:.9g}") for v in some] if name in ("threshold", "value") else some
        for name, some in trees.items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=float, metavar="THRESHOLD", help="write the model with this threshold")
    if (chosen := parser.parse_args().write) is not None:
        write(chosen)
    else:
        tables: Tables = {}
        collected_rows(tables, left_out())
        record("names_model", {}, tables)
