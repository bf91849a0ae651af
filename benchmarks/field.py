r"""The protocol of the field: NCBI disease and BC5CDR diseases as BioSyn (Sung et al. 2020) counts them.

**accuracy**: the protocol is that of `library.biosyn`: names of MEDIC and of the annotated mentions before the part,
composite mentions split, mentions with an id that MEDIC lacks left out, a name right for each entity that has it.
`dev` is the development part with the names of the training part, `test` the test part with those of both. `one
entity`: the test part, if a name stands only for the entity that it was annotated with most often. `arbo`: as `one
entity`, but all mentions with an id count, those that MEDIC lacks as wrong, and a composite mention is right with one
of its ids, as in `arbo evaluate`. `homonyms`: as `one entity`, of the mentions whose name several entities share.

Models: `n-grams` are arbo's, without training, first with the names of MEDIC alone. The others rerank the 24 names
that are nearest by n-grams, and the 24 nearest by vectors: `MiniLM` by the cosine of vectors (22 million parameters,
aligned for an epoch on the names of MEDIC, the Disease Ontology and the HPO, see `library.alignment`); `sum` by the
cosine plus the n-grams' score, its weight chosen on the development part; `learnt` by gradient boosting
(`library.ranking`) over words, scores and annotations, then over vectors too, then over the entities that other
mentions of the document name. It learns from the annotated parts in five folds, each with the names of the other four.
`and sum` adds its log-odds to `sum`, weighted on the development part.

`CORPUS.accuracy` is `test` of the model that is best on `dev`.

**errors**: the wrong mentions of the test part by kind, the first that applies. `composite`: several ids;
`abbreviation`: not written out; `same name`: the dictionary has the mention's very name, for other entities, or for
the right one too if a reranker chose another name; `unseen`: ids that were never annotated; `more general`, `more
specific`: the words of the chosen name are some of the mention's, or all of them and more.

**homonyms**: mentions whose name several entities share: the share of right ones, if the name means the first of them
in MEDIC, the one annotated most often with the name, or the one that most other mentions of the document name.

**marginalised** (BioSyn's loss, `library.marginal`): MiniLM, aligned (0 epochs), trained on the annotated mentions
before the part in the folds above, the number of epochs chosen on the development part; by the cosine, and by the
cosine plus the n-grams' score times a weight. It was aligned by 200 steps of MEDIC's synonyms (see
`arborescence_training`), and each mention has its 24 nearest names by n-grams; or for an epoch, as above, with the 24
nearest by vectors too.

`--corpus` chooses cells; each is kept in `cells/`. `--record` records the cells that are there, and makes none.
`--marginalised` makes and records that table alone.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from library.alignment import SETTINGS as ALIGNMENT, aligned
from library.biosyn import Ids, Query, dictionary, ids_of, plain, queries, right, written_parts
from library.cells import Cell, Cells, key
from library.command import parser_of
from library.corpora import JOBS, Data
from library.folders import CELLS as PLACE, DATA
from library.marginal import SETTINGS as MARGINAL, Item, epochs
from library.medic import CORPORA, encoder_of, settings_of
from library.ranking import GROUPS, SETTINGS, Context, Cosine, Known, Lists, Pairs, described_pairs, learnt, words
from library.results import Figures, Row, Tables, record, record_table, say
from library.union import union
from scipy.special import logit

import arbo
from arbo.data import mention_inputs
from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.encoders.ngrams import NgramEncoder
from arbo.retrieval.reranking import best_first
from clustering.vectors import unit

CANDIDATES = 24
BOTH_KINDS = [CANDIDATES] * 2
"""By n-grams, and by vectors."""
FOLDS = 5
EPOCHS = 2
WEIGHTS = (0.125, 0.25, 0.5, 1.0, 2.0)
TRUSTS = (2.0, 5.0, 10.0, 20.0)
SHORT_START, LONG_START = MARGINAL_STARTS = ("200 steps", "an epoch")
"""Alignments that the marginalised start with."""
KINDS = ("composite", "abbreviation", "same name", "unseen", "more general", "more specific", "other")
SHORT = re.compile(r"[A-Z][A-Za-z0-9-]*[A-Z0-9][A-Za-z0-9-]*")
Answers = list[list[str]]
"""The name that is chosen for each part of each query; empty without candidates."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Queries, what is known when they are asked, and the nearest names of their parts."""

    queries: Sequence[Query]
    known: Known
    lists: Lists

    @classmethod
    def of(
        cls,
        kb: arbo.KnowledgeBase,
        encoder: arbo.DualEncoder | None,
        asked: Sequence[Query],
        annotated: Sequence[Query],
    ) -> "Asked":
        """Search the nearest names of a dictionary."""
        known = Known.of(kb, dictionary(kb, annotated), annotated)
        return cls(asked, known, nearest(asked, list(known.dictionary), encoder))

    def accuracy(self, answers: Answers) -> float:
        """Return the accuracy by BioSyn's protocol."""
        return float(np.mean(self.right(answers)))

    def right(self, answers: Answers) -> list[bool]:
        """Say which queries are right."""
        return [
            right(query, [self.known.dictionary.get(name, frozenset()) for name in given])
            for query, given in zip(self.queries, answers, strict=True)
        ]

    def is_homonym(self, query: Query) -> bool:
        """Say whether several entities share the name of a mention."""
        return len(query.parts) == 1 and len(self.known.rows(query.parts[0])) > 1

    def labels(self, pairs: Pairs) -> Any:
        """Say which candidates are right; (pairs,)."""
        names = self.known.dictionary
        return np.array([not names[name].isdisjoint(self.queries[number].ids) for number, _, name in pairs.whose])


@dataclass(frozen=True, slots=True)
class Parts:
    """A corpus by the protocol: what is asked of each part, and the folds that a reranker is trained on."""

    data: Data
    bare: Asked
    dev: Asked
    test: Asked
    learn_dev: Sequence[Asked]
    learn_test: Sequence[Asked]

    @classmethod
    def of(cls, corpus: str, encoder: arbo.DualEncoder | None = None) -> "Parts":
        """Prepare a corpus; with an encoder, what is nearest by its vectors is a candidate too."""
        data = Data.of(corpus)
        known = ids_of(data.kb)
        train, dev, test = (
            queries(getattr(data, part), known, parts_given(corpus, part)) for part in ("train", "dev", "test")
        )
        say(f"{corpus}: {len(train)}, {len(dev)} and {len(test)} mentions")
        both = [*train, *dev]
        return cls(
            data,
            Asked.of(data.kb, encoder, test, []),
            Asked.of(data.kb, encoder, dev, train),
            Asked.of(data.kb, encoder, test, both),
            [Asked.of(data.kb, encoder, own, rest) for own, rest in folds(train)],
            [Asked.of(data.kb, encoder, own, rest) for own, rest in folds(both)],
        )

    def everything(self) -> Iterator[Asked]:
        """Yield everything that is asked."""
        yield from (self.bare, self.dev, self.test, *self.learn_dev, *self.learn_test)


def parts_given(corpus: str, part: str) -> dict[tuple[str, int, int], list[str]]:
    """Read the parts of composite mentions, if a corpus gives them."""
    if corpus != CORPORA[1]:
        return {}
    file = JOBS[corpus].dev.replace("Development", {"train": "Training", "dev": "Development", "test": "Test"}[part])
    return written_parts(DATA / file, "Disease")


def folds(asked: Sequence[Query]) -> Iterator[tuple[list[Query], list[Query]]]:
    """Divide queries by document; yield each fold, and the rest."""
    fold = [int(hashlib.sha256(query.document.id.encode()).hexdigest(), 16) % FOLDS for query in asked]
    for chosen in range(FOLDS):
        yield (
            [query for query, own in zip(asked, fold, strict=True) if own == chosen],
            [query for query, own in zip(asked, fold, strict=True) if own != chosen],
        )


def nearest(asked: Iterable[Query], names: Sequence[str], encoder: arbo.DualEncoder | None) -> Lists:
    """Search the nearest names by n-grams, and by vectors if there is an encoder; all with their scores by n-grams."""
    parts = sorted({part for query in asked for part in query.parts} - {""})
    mentions = Corpus(
        Document(part, part, (Mention(f"{part}/", part, ((0, len(part)),), part, None, None),)) for part in parts
    )
    kb = arbo.KnowledgeBase(arbo.Entity(str(row), name) for row, name in enumerate(names))
    by_ngrams = arbo.Linker(kb, config=arbo.LinkerConfig(expand_abbreviations=False))
    linkers = by_ngrams, *([] if encoder is None else [by_ngrams.configured(encoder=encoder)])
    found = union(*(linker.candidates(mentions, k=CANDIDATES) for linker in linkers))
    place, at = np.nonzero(found.entities >= 0)
    entity = found.entities[place, at]
    fitted = NgramEncoder().fit(names)
    inputs = mention_inputs(mentions, expand_abbreviations=False)
    left, right = fitted.encode_mentions(inputs), fitted.encode_entities(kb)
    products: Any = unit(left.matrix)[left.row[place]] * unit(right.matrix)[right.row[entity]]
    scores = np.full(found.entities.shape, -np.inf, np.float32)
    scores[place, at] = products.sum(axis=1)
    ordered = zip(*map(np.ndarray.tolist, best_first(found.entities, scores)), strict=True)
    return {
        part: ([names[row] for row in rows if row >= 0], [score for score in given if score > -np.inf])
        for part, (rows, given) in zip(parts, ordered, strict=True)
    }


def cosines_of(encoder: arbo.DualEncoder, asked: Iterable[Asked]) -> Cosine:
    """Encode all names that are asked for or found."""
    names = sorted({name for own in asked for part, (found, _) in own.lists.items() for name in (part, *found)})
    say(f"{len(names)} names to encode")
    kb = arbo.KnowledgeBase(arbo.Entity(str(row), name) for row, name in enumerate(names))
    vectors = encoder.encode_entities(kb)
    matrix: Any = unit(vectors.matrix)
    row_of = dict(zip(names, vectors.row.tolist(), strict=True))

    def cosines(one: Sequence[str], other: Sequence[str]) -> Any:
        left, right = (matrix[[row_of[name] for name in side]] for side in (one, other))
        return np.einsum("ij,ij->i", left, right)

    return cosines


# Models


def by_score(asked: Asked, pairs: Pairs, scores: Any) -> Answers:
    """Choose the name with the highest score for each part, the first of equals."""
    best: dict[tuple[int, str], tuple[float, str]] = {}
    for (query, part, name), score in zip(pairs.whose, scores.tolist(), strict=True):
        if (query, part) not in best or score > best[query, part][0]:
            best[query, part] = score, name
    return [[best.get((i, part), (0, ""))[1] for part in query.parts] for i, query in enumerate(asked.queries)]


class Model(NamedTuple):
    """A model, its answers on the development part (None if that is not asked), and on the test part."""

    name: str
    dev: Answers | None
    asked: Asked
    test: Answers


def models(parts: Parts, cosine: Cosine) -> Iterator[Model]:
    """Yield each model with its answers."""

    def described(asked: Asked) -> Pairs:
        return described_pairs(asked.queries, asked.lists, asked.known, cosine)

    bare, dev, test = map(described, (parts.bare, parts.dev, parts.test))

    def model(name: str, score: Callable[[Pairs], Any], for_test: Callable[[Pairs], Any] | None = None) -> Model:
        chosen = by_score(parts.dev, dev, score(dev)), by_score(parts.test, test, (for_test or score)(test))
        return Model(name, chosen[0], parts.test, chosen[1])

    yield Model("n-grams, names of MEDIC", None, parts.bare, by_score(parts.bare, bare, bare.column("n-grams")))
    yield model("n-grams", lambda pairs: pairs.column("n-grams"))
    yield model("MiniLM", lambda pairs: pairs.column("cosine"))
    tried = {weight: parts.dev.accuracy(by_score(parts.dev, dev, added(dev, weight))) for weight in WEIGHTS}
    weight = max(tried, key=lambda weight: tried[weight])
    yield model("sum", partial(added, weight=weight))
    folds = [[(own, described(own)) for own in learn] for learn in (parts.learn_dev, parts.learn_test)]
    for name, groups in GROUPS.items():
        score = [learnt([(pairs, own.labels(pairs)) for own, pairs in each], groups) for each in folds]
        yield model(name, *score)
    tried = {
        trust: parts.dev.accuracy(by_score(parts.dev, dev, both(dev, score[0], weight, trust))) for trust in TRUSTS
    }
    trust = max(tried, key=lambda trust: tried[trust])
    yield model(
        "learnt, in the document, and sum",
        *(partial(both, score=own, weight=weight, trust=trust) for own in score),
    )


def added(pairs: Pairs, weight: float) -> Any:
    """Add cosines and weighted scores of n-grams."""
    return pairs.column("cosine") + weight * pairs.column("n-grams")


def both(pairs: Pairs, score: Callable[[Pairs], Any], weight: float, trust: float) -> Any:
    """Add learnt log-odds, and cosines and scores of n-grams ``trust`` times."""
    return logit(score(pairs)) + trust * added(pairs, weight)


# What the points are lost on


def one_entity(query: Query, names: Sequence[str], known: Known, *, every: bool) -> bool:
    """Say whether the entities of names are right, if each name stands for one; of all names, or of one."""
    gold = {known.entity_of[id_] for id_ in query.ids}
    return (all if every else any)(known.most_annotated(name) in gold for name in names)


def row_of(corpus: str, model: Model, parts: Parts) -> Row:
    """Score a model by both protocols."""
    answers = list(zip(model.asked.queries, model.test, strict=True))
    alone = [one_entity(query, names, model.asked.known, every=True) for query, names in answers]
    lenient = sum(one_entity(query, names, model.asked.known, every=False) for query, names in answers)
    shared = [is_right for (query, _), is_right in zip(answers, alone, strict=True) if model.asked.is_homonym(query)]
    return {
        "corpus": corpus,
        "model": model.name,
        "dev": "" if model.dev is None else parts.dev.accuracy(model.dev),
        "test": model.asked.accuracy(model.test),
        "one entity": float(np.mean(alone)),
        "arbo": lenient / sum(bool(mention.gold) for mention in parts.data.test.mentions),
        "homonyms": float(np.mean(shared)) if shared else "",
        "mentions": len(answers),
    }


def kind_of(query: Query, names: Sequence[str], known: Known) -> str:
    """Tell what is hard about a mention whose answer is wrong."""
    wrong = next((i for i, name in enumerate(names) if known.dictionary.get(name, Ids()).isdisjoint(query.ids)), 0)
    part, name = set(words(query.parts[wrong])), set(words(names[wrong]))
    if len(query.ids) > 1:
        return "composite"
    if SHORT.fullmatch(query.mention.text) and plain(query.mention.text) == query.parts[0]:
        return "abbreviation"
    if query.parts[0] in known.dictionary:
        return "same name"
    if not any(known.entities[known.entity_of[id_]] for id_ in query.ids):
        return "unseen"
    if part > name:
        return "more general"
    return "more specific" if part < name else "other"


def errors(corpus: str, model: Model) -> Row:
    """Count the wrong mentions of a model by kind."""
    asked = zip(model.asked.queries, model.test, model.asked.right(model.test), strict=True)
    kinds = Counter(kind_of(query, names, model.asked.known) for query, names, is_right in asked if not is_right)
    return {"corpus": corpus, "model": model.name, "wrong": kinds.total()} | {kind: kinds[kind] for kind in KINDS}


def homonyms(corpus: str, part: str, asked: Asked) -> Row:
    """Choose among the entities that share the name of a mention, with and without its document."""
    shared = [query for query in asked.queries if asked.is_homonym(query)]
    found: Counter[str] = Counter()
    context = Context(asked.queries, asked.lists, asked.known)
    for query in shared:
        rows, gold = sorted(asked.known.rows(query.parts[0])), {asked.known.entity_of[id_] for id_ in query.ids}
        named, _ = context.beside(query)
        often = asked.known.most_annotated(query.parts[0])
        found["first"] += rows[0] in gold
        found["annotated"] += often in gold
        found["in the document"] += max(rows, key=lambda row: (named[row], row == often)) in gold
    n = max(len(shared), 1)
    ways = {way: found[way] / n for way in ("first", "annotated", "in the document")}
    return {"corpus": corpus, "part": part, "mentions": len(shared)} | ways


def measured(corpus: str, name: str) -> dict[str, Any]:
    """Make a cell."""
    encoder = aligned()
    parts = Parts.of(corpus, encoder)
    rows, wrong = [], []
    for model in models(parts, cosines_of(encoder, parts.everything())):
        rows.append(row_of(corpus, model, parts))
        wrong.append(errors(corpus, model))
        say(str(rows[-1]))
    shared = [homonyms(corpus, part, asked) for part, asked in (("dev", parts.dev), ("test", parts.test))]
    return {"rows": rows, "errors": wrong, "homonyms": shared}


def items(learn: Iterable[Asked]) -> Iterator[Item]:
    """Yield the parts of queries with their candidates."""
    for asked in learn:
        for query in asked.queries:
            for part in query.parts:
                names = asked.lists.get(part, ((), ()))[0]
                right_ones = (not asked.known.dictionary[name].isdisjoint(query.ids) for name in names)
                yield Item(part, tuple(names), tuple(right_ones))


def marginalised(corpus: str, alignment: str, name: str) -> dict[str, Any]:
    """Make a cell of MiniLM with synonym marginalisation; as many epochs for the test part as are best on dev."""
    if alignment == SHORT_START:
        start = encoder_of("aligned", {corpus: Data.of(corpus) for corpus in CORPORA})
        parts = Parts.of(corpus)
    else:
        start = aligned()
        parts = Parts.of(corpus, start)

    def row(asked: Asked, part: str, n_epochs: int, encoder: arbo.DualEncoder) -> Row:
        pairs = described_pairs(asked.queries, asked.lists, asked.known, cosines_of(encoder, [asked]))
        ways = {"MiniLM": pairs.column("cosine")} | {f"sum, {weight}": added(pairs, weight) for weight in WEIGHTS}
        found = {way: asked.accuracy(by_score(asked, pairs, scores)) for way, scores in ways.items()}
        say(f"{part}, {n_epochs} epochs: {found}")
        return {"corpus": corpus, "start": alignment, "part": part, "epochs": n_epochs} | found

    def rows(learn: Sequence[Asked], asked: Asked, part: str, most: int) -> Iterator[Row]:
        yield row(asked, part, 0, start)
        for n_epochs, encoder in zip(range(1, most + 1), epochs(start, items(learn)), strict=False):
            yield row(asked, part, n_epochs, encoder)

    dev = [*rows(parts.learn_dev, parts.dev, "dev", EPOCHS)]
    best = max(dev, key=lambda row: row["MiniLM"])["epochs"]
    return {"rows": [*dev, *rows(parts.learn_test, parts.test, "test", best)]}


CELLS = Cells("field", lambda cell: (ALIGNMENT, BOTH_KINDS, FOLDS, WEIGHTS, TRUSTS, SETTINGS, list(GROUPS)), PLACE)


def settings_of_marginalised(cell: Cell) -> object:
    """Tell what a cell of that table is made with."""
    if cell["start"] == SHORT_START:
        return settings_of("aligned"), CANDIDATES, FOLDS, EPOCHS, MARGINAL
    return ALIGNMENT, BOTH_KINDS, FOLDS, EPOCHS, MARGINAL


OF_MARGINALISED = Cells("field_marginalised", settings_of_marginalised, PLACE)


def record_all() -> None:
    """Record every cell that is there."""
    cells = sorted(CELLS.read(), key=lambda cell: CORPORA.index(cell["corpus"]))
    rows = [row for cell in cells for row in cell["rows"]]
    annotated = {row["model"] for row in rows if row["dev"] != ""}  # without annotated names, every id is unseen
    figures: Figures = {key(row["corpus"], row["model"], "test"): row["test"] for row in rows}
    for corpus in CORPORA:
        own = [row for row in rows if row["corpus"] == corpus and row["model"] in annotated]
        if own:
            best = max(own, key=lambda row: row["dev"])
            figures[key(corpus, "accuracy")] = best["test"]
    tables: Tables = {
        "accuracy": rows,
        "errors": [row for cell in cells for row in cell["errors"] if row["model"] in annotated],
        "homonyms": [row for cell in cells for row in cell["homonyms"]],
    }
    record("field", figures, tables, cells=cells)
    record_marginalised()


def record_marginalised() -> None:
    """Record every cell of that table that is there."""
    cells = sorted(OF_MARGINALISED.read(), key=lambda cell: (CORPORA.index(cell["corpus"]), cell["start"]))
    rows = [row | {"commit": cell["commit"]} for cell in cells for row in cell["rows"]]
    record_table("field", "marginalised", rows)


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = parser_of(__doc__)
    parser.add_argument("--corpus", action="append", choices=CORPORA, help="default: both")
    parser.add_argument("--marginalised", action="store_true", help="make this table alone")
    parser.add_argument("--record", action="store_true", help="record what is there, and measure nothing")
    asked = parser.parse_args()
    corpora = [] if asked.record else asked.corpus or CORPORA
    if asked.marginalised:
        for corpus, start in product(corpora, MARGINAL_STARTS):
            OF_MARGINALISED.keep({"corpus": corpus, "start": start}, partial(marginalised, corpus, start))
        record_marginalised()
    else:
        for corpus in corpora:
            CELLS.keep({"corpus": corpus}, partial(measured, corpus))
        record_all()


if __name__ == "__main__":
    main()
