"""Learnt edges: linking on GUM, clusters on ECB+, and what transfers between them.

**linking**: the mentions of GUM that have a Wikipedia title, linked to all titles of the corpus; `n-grams` with the
default method and thresholds chosen on the development part, `learnt` with edges of `arbo.train_edges` on the training
part, calibrated on the development part, no threshold on entity edges and 0.9 on edges between mentions. `names`,
`phrases`, `pronouns`: accuracy of these mentions alone.

**clusters**: entities and events of ECB+, gold mentions, no topics, no knowledge base. `n-grams`: the threshold chosen
on the development part by ARI. `trained on ...`: learnt edges with the threshold 0.5, or chosen the same way.

**pairs**: average precision of the probability that two mentions mean the same, over the pairs that are compared;
`letters` is the similarity of character n-grams alone.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import re
import time
from collections.abc import Iterator

import numpy as np
from library.cells import key
from library.folders import DATA
from library.results import Figures, Row, Tables, collected_rows, record
from sklearn.metrics import average_precision_score

import arbo
from arbo.data.corpus import Corpus
from arbo.data.inputs import mention_inputs
from arbo.edges.facts import Facts
from arbo.edges.features import MENTION_FEATURES
from arbo.training.edges import examples
from clustering import METHODS

PARTS = ("train", "dev", "test")
FREE = arbo.LinkerConfig(entity_threshold=None, mention_threshold=0.9)


def corpora() -> dict[str, dict[str, Corpus]]:
    """Read the parts of each corpus."""
    ecb = {part: DATA / f"ecbplus/ECB_{part.capitalize()}_corpus.txt" for part in PARTS}
    return {
        "GUM": {part: arbo.read_documents(DATA / f"gum/GUM_{part}_corpus.txt", "ecbplus") for part in PARTS},
        "ECB+ entities": {part: arbo.read_documents(file, "ecbplus") for part, file in ecb.items()},
        "ECB+ events": {part: arbo.read_documents(file, "ecbplus-events") for part, file in ecb.items()},
    }


def titles(parts: dict[str, Corpus]) -> arbo.KnowledgeBase:
    """Make a knowledge base of all Wikipedia titles; the title without its explanation is an alias."""
    ids = sorted({title for corpus in parts.values() for mention in corpus.mentions for title in mention.gold or ()})
    names = [title.replace("_", " ") for title in ids]
    short = [re.sub(r"\(.*?\)|,.*", "", name).strip() for name in names]
    return arbo.KnowledgeBase(
        arbo.Entity(id_, name, (alias,) if alias not in ("", name) else ())
        for id_, name, alias in zip(ids, names, short, strict=True)
    )


def linking(parts: dict[str, Corpus], kb: arbo.KnowledgeBase, edges: arbo.EdgeModel) -> Iterator[tuple[str, Row]]:
    """Rows of the table ``linking``."""
    tuned = arbo.Linker(kb).tune(parts["dev"])
    systems = {("n-grams", tuned.config.method): tuned}
    for method in METHODS:
        config = arbo.LinkerConfig.from_dict(FREE.as_dict() | {"method": method})
        systems["learnt", method] = arbo.Linker(kb, config=config, edges=edges)
    for (name, method), linker in systems.items():
        for part in ("dev", "test"):
            yield "linking", {"edges": name, "method": method, "part": part, **accuracies(linker, parts[part])}


def accuracies(linker: arbo.Linker, corpus: Corpus) -> dict[str, float]:
    """Return the accuracy of all mentions with a title, and of names, phrases and pronouns."""
    entities = linker.link(corpus).link_table["entity_id"].to_pylist()
    known = np.array([bool(mention.gold) for mention in corpus.mentions])
    right = np.array([entity in (m.gold or ()) for entity, m in zip(entities, corpus.mentions, strict=True)])
    of = Facts.of(mention_inputs(corpus, expand_abbreviations=False)).columns
    pronoun = of["pronoun"] > 0
    name = (of["head_capital"] > 0) & ~pronoun
    kinds = {"accuracy": known, "names": known & name, "phrases": known & ~name & ~pronoun, "pronouns": known & pronoun}
    return {"mentions": int(known.sum()), **{kind: right[rows].mean() for kind, rows in kinds.items()}}


def clusters(name: str, parts: dict[str, Corpus], models: dict[str, arbo.EdgeModel]) -> Iterator[tuple[str, Row]]:
    """Rows of the table ``clusters``."""
    linkers = {"n-grams": arbo.Linker()} | {
        f"trained on {on}": arbo.Linker(edges=model) for on, model in models.items()
    }
    for system, linker in linkers.items():
        for chosen in ("default", "ARI of dev"):
            own = linker if chosen == "default" else linker.tune(parts["dev"])
            scores = own.discover(parts["test"]).evaluate().as_dict()
            coreference = scores["coreference"]
            row = {
                "CoNLL": coreference["conll"],
                "B-cubed": coreference["b3"]["f1"],
                "ARI": scores["clustering"]["ari"],
            }
            yield "clusters", {"corpus": name, "edges": system, "threshold": chosen, **row}


def pairs(parts: dict[str, dict[str, Corpus]], models: dict[str, arbo.EdgeModel]) -> Iterator[tuple[str, Row]]:
    """Rows of the table ``pairs``."""
    for name, own in parts.items():
        ((features, correct),) = examples(arbo.Linker(), own["test"])
        scores: dict[str, np.ndarray] = {"letters": features[:, MENTION_FEATURES.index("letters")]}
        scores |= {f"trained on {on}": model.mentions.scores(features) for on, model in models.items()}
        found = {system: average_precision_score(correct, score) for system, score in scores.items()}
        yield "pairs", {"corpus": name, "pairs": len(correct), "correct": int(correct.sum()), **found}


def main() -> None:
    """Measure everything and record it."""
    every = corpora()
    kb = titles(every["GUM"])
    figures: Figures = {}
    models = {}
    for name, own in every.items():
        begin = time.perf_counter()
        models[name] = arbo.train_edges(own["train"], own["dev"], kb if name == "GUM" else None)
        figures[key(name, "training", "seconds")] = time.perf_counter() - begin
    tables: Tables = {"linking": [], "clusters": [], "pairs": []}
    collected_rows(tables, linking(every["GUM"], kb, models["GUM"]))
    for name in ("ECB+ entities", "ECB+ events"):
        collected_rows(tables, clusters(name, every[name], models))
    collected_rows(tables, pairs(every, models))
    for row in tables["linking"]:
        if row["part"] == "test":
            figures[key("gum", row["edges"], row["method"], "accuracy")] = row["accuracy"]
    for row in tables["clusters"]:
        for score in ("CoNLL", "B-cubed", "ARI"):
            figures[key(row["corpus"], row["edges"], row["threshold"], score)] = row[score]
    record("edges", figures, tables)


if __name__ == "__main__":
    main()
