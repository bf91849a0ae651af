"""Learnt edges: linking on GUM, clusters on ECB+, and what transfers between them.

**linking**: the mentions of GUM that have a Wikipedia title, linked to all titles of the corpus; `n-grams` with the
default method and thresholds chosen on the development part, `learnt` with edges of `arbo.train_edges` on the training
part, calibrated on the development part, no threshold on entity edges and 0.9 on edges between mentions; `default` has
the settings that the development part chose. `names`, `phrases`, `pronouns`: accuracy of these mentions alone.

**names**: `linking` again, without and with the names of the training part in the knowledge base
(`kb.with_names_of(train)`), which are training data. `learnt with names`: edges of `arbo.train_edges(..., names=True)`.
Accuracy by method, and 95 % intervals of `arborescence` and `minimax`, by draws of documents. No threshold on entity
edges and 0.9 on edges between mentions, in all rows. The figures are those of `minimax`, which edge models keep.

**genres**: `linking` on each genre of GUM (its training and development documents) with `learnt` edges of the other
genres: `default` with the settings that their development documents chose. `n-grams`: no thresholds.

**clusters**: entities and events of ECB+, gold mentions, no topics, no knowledge base. `n-grams`: the threshold chosen
on the development part by ARI. `trained on ...`: learnt edges with the settings that their development part chose by
CoNLL (default), or chosen the same way; edges of GUM, which link, with the threshold 0.5.

**context**: clusters of ECB+ by learnt edges, which keep the settings that the development part chose, with n-grams and
with an encoder that `arbo train encoder --preset context` trained on the entities and events of half of the training
part (all-MiniLM-L6-v2).

**pairs**: average precision of the probability that two mentions mean the same, over the pairs that are compared;
`letters` is the similarity of character n-grams alone.

**left_out**: edges trained on GUM, ECB+ and Wiki-Fair without the corpus, applied to its test part (all of HIPE and
Wiki-Fair), gold mentions, no knowledge base. HIPE's rows are of edges with raised log-odds of pairs across documents;
the other rows are of edges without, since this was chosen on their corpora. `pairs` is the
average precision over the pairs that are compared (`n-grams`: similarity of their letters). `names`: the same model on
the distinct names of persons, organisations and places of these mentions, each in a document of its own: precision,
recall and F1 of the pairs that are put together. Each row is a kept cell.

**names_alone**: the names of `left_out` by n-grams: pairwise F1 with the default threshold, and with the threshold that
is best, on average, for the names of the training parts of the other corpora (GUM, entities of ECB+, Wiki-Fair).
`ceiling`: F1 if equal names are joined, and all right pairs with a common word or a letter similarity above 0.3.

**concepts**: accuracy of links to MEDIC and UBERON, test parts (CRAFT: its development part), as `linking` has them.
`learnt`: edges trained on the training part with the knowledge base as it is, calibrated on the development part, no
threshold on entity edges, and `arborescence` if no method is named. `names`: the names of the training part are added
to the knowledge base before linking.

**directions**: `linking` with learnt edges that lead back from a later mention to an earlier one of its document by
different rules, see `benchmarks/library/directions.py`; accuracy by method. Thresholds on entity and mention edges
are the defaults with k = 4, those of `linking` with k = 4, or chosen on the development part with k for each method.
The last columns are 95 % intervals of the difference to `arborescence`, by draws of documents. `names to nameless` is
what arbo does.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np
from library.annotated import ACROSS, CORPORA, LICENSED, names_alone, raised, train_english
from library.cells import Cell, Cells, hashed, key
from library.command import parser_of
from library.corpora import Data
from library.directions import DIRECTIONS, THRESHOLDS, Directions, interval
from library.folders import DATA, MODELS
from library.results import Figures, Row, Tables, collected_rows, record, record_table
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import average_precision_score

import arbo
from arbo.data import mention_inputs
from arbo.data.arrow import codes_of
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.edges.features import ENTITY_FEATURES, MENTION_FEATURES, Facts, Names
from arbo.engine import Bools
from arbo.training.edges import Compared
from arbo.training.presets import PRESETS
from clustering import METHODS
from eval import clustering_scores

PARTS = ("train", "dev", "test")
GROUPS = {
    "ECB+": ("ECB+ entities", "ECB+ events"),
    "GUM": ("GUM",),
    "Wiki-Fair": ("Wiki-Fair",),
    "HIPE": ("HIPE", "HIPE, other languages"),
}
WHOLE = ("Wiki-Fair", "HIPE")
CONCEPTS = ("NCBI disease", "BC5CDR disease", "CRAFT UBERON")
LINKED = Cells("edges-concepts", lambda _: [ENTITY_FEATURES, MENTION_FEATURES])
DIRECTED = Cells("edges-directions", lambda _: [ENTITY_FEATURES, MENTION_FEATURES])
NAMED = Cells("edges-names", lambda _: [ENTITY_FEATURES, MENTION_FEATURES])
CELLS = Cells(
    "edges", lambda cell: [LICENSED, MENTION_FEATURES, *([ACROSS] if cell["edges"] == "without HIPE" else [])]
)
LIMITS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
FREE = arbo.LinkerConfig(entity_threshold=None, mention_threshold=0.9)
OPEN = arbo.LinkerConfig(entity_threshold=None, mention_threshold=None)


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
    systems["learnt, default", "minimax"] = arbo.Linker(kb, edges=edges)
    for (name, method), linker in systems.items():
        for part in ("dev", "test"):
            yield "linking", {"edges": name, "method": method, "part": part, **accuracies(linker, parts[part])}


def genres(parts: dict[str, Corpus]) -> Iterator[tuple[str, Row]]:
    """Rows of the table ``genres``: edges of the other genres, and those of n-grams."""
    kb, rows = titles(parts), list[Row]()
    documents = [(document.id.split("_")[1], part, document) for part in PARTS[:2] for document in parts[part]]
    for genre in sorted({of for of, *_ in documents}):
        own = Corpus(document for of, _, document in documents if of == genre)
        train, dev = (Corpus(d for of, at, d in documents if of != genre and at == part) for part in PARTS[:2])
        edges, known = arbo.train_edges(train, dev, kb), np.array([bool(mention.gold) for mention in own.mentions])
        systems = {"n-grams": arbo.Linker(kb, config=OPEN)} | {
            method: arbo.Linker(kb, config=replace(FREE, method=method), edges=edges)
            for method in ("arborescence", "minimax")
        }
        systems["default"] = arbo.Linker(kb, edges=edges)
        right = {name: right_links(linker, own)[known].mean() for name, linker in systems.items()}
        rows.append({"genre": genre, "mentions": int(known.sum()), **right})
        yield "genres", rows[-1]
    yield "genres", {"genre": "mean", **{name: np.mean([row[name] for row in rows]) for name in systems}}


def right_links(linker: arbo.Linker, corpus: Corpus) -> Bools:
    """Return whether each mention is linked to one of its gold ids; (mentions,)."""
    entities = linker.link(corpus).link_table["entity_id"].to_pylist()
    return np.array([entity in (m.gold or ()) for entity, m in zip(entities, corpus.mentions, strict=True)])


def accuracies(linker: arbo.Linker, corpus: Corpus) -> dict[str, float]:
    """Return the accuracy of all mentions with a title, and of names, phrases and pronouns."""
    known = np.array([bool(mention.gold) for mention in corpus.mentions])
    right = right_links(linker, corpus)
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
            row = of_clusters(own.discover(parts["test"]))
            yield "clusters", {"corpus": name, "edges": system, "threshold": chosen, **row}


def of_clusters(result: arbo.Result) -> dict[str, float]:
    """Scores of the clusters of a result."""
    scores = result.evaluate().as_dict()
    coreference = scores["coreference"]
    return {"CoNLL": coreference["conll"], "B-cubed": coreference["b3"]["f1"], "ARI": scores["clustering"]["ari"]}


def in_context() -> Iterator[tuple[str, Row]]:
    """Rows of the table ``context``; the encoder is kept."""
    settings, reads = PRESETS["context"]
    out = MODELS / f"context.{hashed([settings.as_dict(), reads.as_dict()])}"
    if not out.exists():
        start = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", reads)
        arbo.train(start, events_and_entities("train"), out=out, config=settings)
    linker = arbo.Linker(encoder=arbo.DualEncoder.from_pretrained(out, cache=MODELS / "context.vectors"))
    for name in ("ECB+ entities", "ECB+ events"):
        parts = CORPORA[name](DATA)
        systems = {"n-grams": arbo.Linker(), "context": linker}
        for system, own in systems.items():
            edges = arbo.train_edges(parts["train"], parts["dev"], linker=own)
            for part in PARTS[1:]:
                row = of_clusters(arbo.Linker(encoder=own.encoder, edges=edges).discover(parts[part]))
                yield "context", {"corpus": name, "part": part, "edges": system, **row}


def events_and_entities(part: str) -> Corpus:
    """Return the documents of a part of ECB+ with the mentions of both kinds."""
    both = zip(*(CORPORA[name](DATA)[part] for name in GROUPS["ECB+"]), strict=True)
    marked = ((one, (replace(event, id=f"{event.id}, event") for event in other.mentions)) for one, other in both)
    return Corpus(replace(document, mentions=(*document.mentions, *events)) for document, events in marked)


def pairs(parts: dict[str, dict[str, Corpus]], models: dict[str, arbo.EdgeModel]) -> Iterator[tuple[str, Row]]:
    """Rows of the table ``pairs``."""
    for name, own in parts.items():
        *_, features, correct = Compared.of(arbo.Linker(), own["test"])
        scores: dict[str, np.ndarray] = {"letters": features[:, MENTION_FEATURES.index("letters")]}
        scores |= {f"trained on {on}": model.mentions.scores(features) for on, model in models.items()}
        found = {system: average_precision_score(correct, score) for system, score in scores.items()}
        yield "pairs", {"corpus": name, "pairs": len(correct), "correct": int(correct.sum()), **found}


def without(group: str) -> arbo.EdgeModel:
    """Return edges trained on corpora of English without a group, and keep them; see `raised` for HIPE."""
    learnt = [name for name in LICENSED if name not in GROUPS[group]]
    file = MODELS / f"edges.{hashed([learnt, MENTION_FEATURES])}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        model = train_english(learnt)
        (raised(model) if len(learnt) == len(LICENSED) else model).save(file)
    return arbo.EdgeModel.load(file)


def left_out(cell: Cell) -> Cell:
    """Figures of a corpus that the model has not seen, and of its names alone, beside those of n-grams."""
    name = cell["corpus"]
    group = next(group for group, names in GROUPS.items() if name in names)
    parts = CORPORA[name](DATA)
    corpus = Corpus(d for part in parts.values() for d in part) if name in WHOLE else parts["test"]
    edges = None if cell["edges"] == "n-grams" else without(group)
    *_, features, correct = Compared.of(arbo.Linker(), corpus)
    letters = features[:, MENTION_FEATURES.index("letters")]
    score = letters if edges is None else edges.mentions.scores(features)
    linker = arbo.Linker(edges=edges)
    figures = {"pairs": average_precision_score(correct, score), **of_clusters(linker.discover(corpus))}
    if names := names_alone(corpus):
        result = linker.discover(names)
        clusters = result.link_table["cluster_id"].combine_chunks().dictionary_encode().indices
        told = clustering_scores(Gold.of(names).classes, clusters)["pairwise"]
        figures |= {f"names {score}": told[score] for score in ("precision", "recall", "f1")}
    return figures


def told_alone(names: Corpus, threshold: float | None = None) -> dict[str, float]:
    """Return pairwise scores of n-grams on names alone."""
    config = arbo.LinkerConfig(treat_as="text")
    config = config if threshold is None else replace(config, mention_threshold=threshold)
    clusters = arbo.Linker(config=config).discover(names).link_table["cluster_id"]
    return clustering_scores(Gold.of(names).classes, codes_of(clusters.to_pylist()))["pairwise"]


def ceiling(names: Corpus) -> float:
    """Return the F1 of names alone if all right pairs with common letters were known."""
    of, label = Names.of([mention.text for mention in names.mentions]), Gold.of(names).classes
    first, second = np.triu_indices(len(label), 1)
    equal = of.keys[first, 0] == of.keys[second, 0]
    near = (of.content @ of.content.T).toarray()[first, second] > 0
    near |= (of.letters @ of.letters.T).toarray()[first, second] > 0.3
    joined = equal | (near & (label[first] == label[second]))
    links = coo_array((joined[joined], (first[joined], second[joined])), shape=(len(label), len(label)))
    return clustering_scores(label, connected_components(links, directed=False)[1])["pairwise"]["f1"]


def alone() -> Iterator[tuple[str, Row]]:
    """Rows of the table ``names_alone``."""
    sources = {name: names_alone(CORPORA[name](DATA)["train"]) for name in ("GUM", "ECB+ entities", "Wiki-Fair")}
    f1 = {name: [told_alone(names, limit)["f1"] for limit in LIMITS] for name, names in sources.items()}
    for name, parts in ((name, CORPORA[name](DATA)) for group in GROUPS.values() for name in group):
        whole = Corpus([document for part in PARTS for document in parts[part]])
        if names := names_alone(whole if name in WHOLE else parts["test"]):
            chosen = LIMITS[int(np.mean([f1[other] for other in sources if other != name], axis=0).argmax())]
            row = {"corpus": name, "names": len(names), "ceiling": ceiling(names), "default": told_alone(names)["f1"]}
            told = told_alone(names, chosen)
            scores = {"precision": told["precision"], "recall": told["recall"], "f1": told["f1"]}
            yield "names_alone", {**row, "threshold": chosen, **scores}


def concepts(cell: Cell) -> Cell:
    """Accuracy on the concepts of a corpus, with n-grams and learnt edges, and with the names of the training part."""
    data = Data.of(cell["corpus"])
    edges = arbo.train_edges(data.train, data.dev, data.kb)
    named = data.kb.with_names_of(data.train)
    systems = {"n-grams": (None, arbo.LinkerConfig()), "learnt": (edges, arbo.LinkerConfig(entity_threshold=None))}
    figures = {}
    for system, (model, config) in systems.items():
        for kb, title in ((data.kb, system), (named, f"{system}, names")):
            scores = arbo.Linker(kb, config=config, edges=model).link(data.test).evaluate()
            assert scores.linking is not None
            figures[title] = scores.linking.accuracy
    learnt = arbo.Linker(data.kb, edges=edges)
    scores = learnt.link(data.test).evaluate()
    assert scores.linking is not None
    figures["learnt, default"] = scores.linking.accuracy
    for method in ("minimax", "undirected", "independent"):
        config = arbo.LinkerConfig(entity_threshold=None, method=method)
        scores = learnt.configured(config=config).link(data.test).evaluate()
        assert scores.linking is not None
        figures[f"learnt, {method}"] = scores.linking.accuracy
    return figures


def with_names(parts: dict[str, Corpus], kb: arbo.KnowledgeBase) -> list[Cell]:
    """Rows of the table ``names``, in order."""

    @cache
    def trained(system: str) -> arbo.EdgeModel | None:
        named = system == "learnt with names"
        return None if system == "n-grams" else arbo.train_edges(parts["train"], parts["dev"], kb, names=named)

    @cache
    def base(of: str) -> arbo.KnowledgeBase:
        return kb if of == "titles" else kb.with_names_of(parts["train"])

    def figures(cell: Cell) -> Cell:
        corpus = parts[cell["part"]]
        known = np.array([bool(mention.gold) for mention in corpus.mentions])
        document = codes_of([mention.document_id for mention in corpus.mentions])[known]
        found: Cell = {}
        for method in METHODS:
            config = arbo.LinkerConfig.from_dict(FREE.as_dict() | {"method": method})
            linker = arbo.Linker(base(cell["knowledge base"]), config=config, edges=trained(cell["edges"]))
            right = right_links(linker, corpus)[known]
            found[method] = right.mean()
            if method in ("arborescence", "minimax"):
                found[f"{method}, low"], found[f"{method}, high"] = interval(right.astype(int), document)
        return found

    order = [
        {"part": part, "edges": system, "knowledge base": of}
        for part in ("dev", "test")
        for system in ("n-grams", "learnt", "learnt with names")
        for of in ("titles", "titles, names")
    ]
    return kept(NAMED, order, figures)


def directions(parts: dict[str, Corpus], kb: arbo.KnowledgeBase, model: arbo.EdgeModel) -> list[Cell]:
    """Rows of the table ``directions``, in order."""
    directed = Directions(model, parts, kb)
    order = [
        {"part": part, "thresholds": thresholds, "direction": direction}
        for part in ("dev", "test")
        for thresholds in THRESHOLDS
        for direction in DIRECTIONS
        if (part, thresholds) != ("dev", "tuned")
    ]
    return kept(DIRECTED, order, directed.accuracies)


def kept(cells: Cells, order: list[Cell], make: Callable[[Cell], Cell]) -> list[Cell]:
    """Make and keep the cells that are missing, and return all in this order."""
    for cell in order:
        cells.keep(cell, partial(lambda cell, _: make(cell), cell))
    return sorted(cells.read(), key=lambda row: order.index({name: row[name] for name in order[0]}))


def main() -> None:
    """Measure everything, or one table, and record it."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", choices=["genres", "context"], help="measure this table alone")
    if table := parser.parse_args().only:
        collected_rows(tables := Tables(), genres(corpora()["GUM"]) if table == "genres" else in_context())
        record_table("edges", table, tables[table], by_row(tables))
    else:
        measure()


def measure() -> None:
    """Measure everything and record it."""
    every, figures, models, tables = corpora(), Figures(), dict[str, arbo.EdgeModel](), Tables()
    kb = titles(every["GUM"])
    for name, own in every.items():
        begin = time.perf_counter()
        models[name] = arbo.train_edges(own["train"], own["dev"], kb if name == "GUM" else None)
        figures[key(name, "training", "seconds")] = time.perf_counter() - begin
    collected_rows(tables, linking(every["GUM"], kb, models["GUM"]))
    collected_rows(tables, genres(every["GUM"]))
    for name in ("ECB+ entities", "ECB+ events"):
        collected_rows(tables, clusters(name, every[name], models))
    collected_rows(tables, in_context())
    collected_rows(tables, pairs(every, models))
    named = [(name, f"without {group}") for group, names in GROUPS.items() for name in names]
    order = [{"corpus": name, "edges": edges} for name, without in named for edges in ("n-grams", without)]
    tables["left_out"] = kept(CELLS, order, left_out)
    tables["concepts"] = kept(LINKED, [{"corpus": name} for name in CONCEPTS], concepts)
    collected_rows(tables, alone())
    tables["names"] = with_names(every["GUM"], kb)
    tables["directions"] = directions(every["GUM"], kb, models["GUM"])
    for row in tables["linking"]:
        if row["part"] == "test":
            figures[key("gum", row["edges"], row["method"], "accuracy")] = row["accuracy"]
    for row in tables["names"]:
        if row["part"] == "test":
            figures[key("names", row["edges"], row["knowledge base"], "accuracy")] = row["minimax"]
    for row in tables["clusters"]:
        for score in ("CoNLL", "B-cubed", "ARI"):
            figures[key(row["corpus"], row["edges"], row["threshold"], score)] = row[score]
    record("edges", figures | by_row(tables), tables)


def by_row(tables: Tables) -> Figures:
    """Return the figures of the rows of some tables."""
    rows = [(title, row) for title in ("left_out", "concepts", "genres", "context") for row in tables.get(title, ())]
    about = [(title, *(row[of] for of in ("corpus", "part", "edges", "genre") if of in row)) for title, row in rows]
    scores = zip(about, (row.items() for _, row in rows), strict=True)
    return {key(*of, name): value for of, items in scores for name, value in items if isinstance(value, float)}


if __name__ == "__main__":
    main()
