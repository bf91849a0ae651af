r"""OSLAT: where texts speak of entities, and of which, learnt from texts and the entities in them alone.

A pair is a sentence and an entity in it. A tenth of the entities is unseen, none of their pairs is trained on; of
each other one a tenth of its pairs is for test (section 5.1). *CRAFT*: anatomy and cell types, the training articles
of CRAFT and of its development part but the last tenth, with UBERON and CL as knowledge base. *QUAERO*: French drug
leaflets (EMEA) and titles of articles (MEDLINE); there is no knowledge base, so that the names of a concept are what
the training parts of both call it: words of gold spans, so that in training each pair has a name of the entity in its
very text. Pairs of a concept without such a name are left out of all figures; the table *pairs* counts them. Trained
on the training part of one half without a tenth of its entities, tested on all of its test part.

`OSLAT` is aligned names, then label attention with its linking head, with other numbers than the paper's: the
transformer is all-MiniLM-L6-v2, which was trained on English alone, names' vectors are means of their tokens,
training is short; one seed. The head compares what a text says of a name with the name. `NP` has no alignment, `CD`
is trained on the other half of QUAERO. `rule-based` (and with plurals and accents folded), `fuzzy` and the
bi-encoders (`unsup` untrained, `NCE` aligned by NT-Xent, which is InfoNCE) are the paper's baselines. The tables were
recorded when head and attention were trained one after the other, with the settings of the table *settings*. They
hold systems that this script no longer makes: attention trained at 1e-4 (`OSLAT`) beside 2e-5 (`OSLAT, gentle`,
today's rate), or not at all (`No LA`), another head (`linear head`, that of the paper, and `no head`), alignment by
multi-similarity loss (`MS`), a model that is told the places of gold entities (`GT`, no bound from above, as other
entities are scored by attention), fuzzy matching of whole abstracts, *unions* of the dictionary and another finder,
and *preselection*, how many of the entities of a sentence are among the k that a model is asked about.

**spans**: the words of the entity in a text, given both; stop words do not count. Micro is pooled over all pairs,
macro the mean over pairs. Attention from 0.05 on is a span, as in the paper, and a similarity of spelling from 0.8
on; `tuned` is micro F1 by the threshold that is best on the development texts (the last tenth of CRAFT's articles).
Disjoint pairs are those whose entity stands in several pieces at once. **linking**: whether the entity of a pair is
among the k best of its text, of all entities of the test pairs.

**better start**: recall of a dual-encoder on CRAFT CL before and after 100 steps of `arbo train encoder` with
negatives from k-NN, begun with all-MiniLM-L6-v2 as it is, or aligned.

**end to end**: what `arbo link --find-mentions` does on the raw test abstracts of NCBI disease (100), linked to MEDIC
by n-grams: mentions found, and found and linked to the right entity; `exact` is the same characters, `overlap` a
common one. `OSLAT` is trained on the sentences of the training part, and its threshold is chosen on the development
part. Seconds are of one core, reading files not counted.

The plots, `plots/similarities.*`, have the density of the cosines of 1,000 pairs of synonyms and 1,000 pairs of names
of different entities before and after alignment (figure C.1 of the paper).

`--part`, `--corpus` and `--system` choose cells; each is kept in the cache folder, so that the tables can be made in
several goes, and what is there is recorded: `--record` does that alone.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
from library.cells import Cell, Cells, hashed, key
from library.command import parser_of
from library.corpora import Data
from library.folders import MODELS, PLOTS
from library.oslat.fuzzy import Fuzzy
from library.oslat.models import ALIGNMENT, MODEL, ONE_A_NAME, TRAINING, Attention, BiEncoder, Lab, encoder, unit
from library.oslat.pairs import Pairs
from library.oslat.rule_based import rule_based
from library.oslat.scores import Scorer, given_scores, linked_scores
from library.oslat.tasks import END_TO_END, QUAERO, TASKS, ncbi
from library.plots import plot_steps
from library.results import Figures, Row, Tables, record
from library.timing import seconds
from library.trainings import recalls

import arbo
from arbo.data.corpus import Corpus
from arbo.progress import bars
from arbo.spans.evaluation import found_scores
from arbo.spans.finding import DictionaryFinder, Finder, Spans
from arbo.spans.model import ModelFinder, Pieces, spans_of
from arbo.text.names import normalize_name
from arbo.text.words import fold
from clustering.arrays import Bools, Ids
from eval import threshold_curve

START = arbo.TrainingConfig(negatives="knn", epochs=1000, steps=100)
LIKENESS = (0.6, 0.7, 0.8, 0.9)
THRESHOLDS = np.round(np.geomspace(0.01, 0.5, 18), 4)
HOW, WHAT = ("micro", "macro"), ("precision", "recall", "f1")
SETTINGS = {"alignment": ALIGNMENT, "attention and head": TRAINING}
TRAINED = ("OSLAT", "NP", "CD")
SPANS = ("rule-based", "rule-based, plurals", "fuzzy", *TRAINED)
LINKING = ("fuzzy", "unsup", "NCE", *TRAINED)
FINDERS = ("dictionary", "OSLAT")
KINDS = ("contiguous", "disjoint", "all")
STARTS = ("untrained", "aligned")
ALONE = ("similarities", "start")
"""Parts that `--system` does not choose from."""


def trained_in(lab: Lab, system: str) -> Lab:
    """Tell where the model of a system is trained: on the other half for the cross-domain one."""
    return Lab(f"QUAERO {QUAERO[lab.corpus.split()[1]]}") if system == "CD" else lab


def seen_by(lab: Lab, system: str) -> Bools:
    """Tell of which test pairs the training of a system has the entity; (pairs,)."""
    return np.isin(lab.task.test.entity, trained_in(lab, system).task.taught)


def model_of(lab: Lab, system: str) -> arbo.LabelAttention:
    """Return the model of a system; the cross-domain one is that of the other half."""
    return trained_in(lab, system).trained("OSLAT" if system == "CD" else system)


def spans(lab: Lab, system: str) -> Row:
    """Extract spans of the test pairs, and score them, also by the threshold that is best on the development part."""
    task, seen = lab.task, seen_by(lab, system)
    if system.startswith("rule-based"):
        normalize = fold if system == "rule-based" else normalize_name
        return told(task.test, rule_based(*asked(task.test, task.kb), normalize), seen)
    if system == "fuzzy":
        default, tried, extracting = Fuzzy().threshold, list(LIKENESS), partial(by_spelling, task.kb)
    else:
        model = model_of(lab, system)
        default, tried, extracting = 0.05, THRESHOLDS.tolist(), partial(by_attention, model, task.kb)
    on_test = extracting(task.test)
    found = told(task.test, on_test(default), seen)
    if task.dev is None:
        return found
    dev, on_dev = task.dev, extracting(task.dev)
    none = np.zeros(len(dev), np.bool_)
    best = max(tried, key=lambda threshold: given_scores(dev, on_dev(threshold), none)["all", "all"].micro.f1)
    tuned = {f"{name} tuned": value for name, value in told(task.test, on_test(best), seen).items()}
    return found | tuned | {"tuned threshold": best}


def asked(pairs: Pairs, kb: arbo.KnowledgeBase) -> tuple[list[str], arbo.KnowledgeBase, Ids, Ids]:
    """Put pairs as a `Scorer` is asked about them."""
    return [document.text for document in pairs.corpus], kb, pairs.text, pairs.entity


def by_spelling(kb: arbo.KnowledgeBase, pairs: Pairs) -> Callable[[float], Sequence[Spans]]:
    """Return what extracts the spans of pairs by a threshold on the similarity of spelling."""
    return lambda threshold: Fuzzy(threshold).spans(*asked(pairs, kb))


def by_attention(
    model: arbo.LabelAttention, kb: arbo.KnowledgeBase, pairs: Pairs
) -> Callable[[float], Sequence[Spans]]:
    """Return what extracts the spans of pairs by a threshold on attention, which is paid once."""
    texts = [document.text for document in pairs.corpus]
    looks = list(model.looks(*asked(pairs, kb), bars))

    def extracted(threshold: float) -> Sequence[Spans]:
        spans: list[Spans] = [()] * len(pairs)
        for look in looks:
            rows = spans_of(texts[look.text], look.tokens, look.weights, threshold)
            for pair, row in zip(look.pairs.tolist(), rows, strict=True):
                spans[pair] = row
        return spans

    return extracted


def told(pairs: Pairs, predicted: Sequence[Spans], seen: Bools) -> Figures:
    """Name the figures of extracted spans."""
    return {
        f"{kind} {entities} {how} {what}": getattr(getattr(group, how), what)
        for (kind, entities), group in given_scores(pairs, predicted, seen).items()
        for how in HOW
        for what in WHAT
    }


def linking(lab: Lab, system: str) -> Row:
    """Link the texts of the test pairs."""
    task = lab.task
    scorer: Scorer
    if system == "fuzzy":
        scorer = Fuzzy()
    elif system in ("unsup", "NCE"):
        scorer = BiEncoder(lab.aligned() if system == "NCE" else encoder())
    else:
        scorer = Attention(model_of(lab, system))
    scores = linked_scores(scorer, task.test, task.kb, seen_by(lab, system), bars)
    groups = {name: ("all", name) for name in ("all", "seen", "unseen")} | {kind: (kind, "all") for kind in KINDS[:2]}
    kept = {name: scores[group] for name, group in groups.items() if group in scores}
    return {f"{name} {k}": accuracy for name, row in kept.items() for k, accuracy in row.items()}


def similarities(lab: Lab) -> Row:
    """Compare 1,000 pairs of synonyms and 1,000 pairs of other names before and after alignment."""
    rng, names, owner = np.random.default_rng(0), [], []
    for row in np.unique(Pairs.of(lab.task.train, lab.task.kb).entity).tolist():
        own = lab.task.kb.entities[row]
        spelt = list(dict.fromkeys((own.name, *own.aliases)))
        names += spelt
        owner += [row] * len(spelt)
    of, n = np.array(owner), len(names)
    one = rng.integers(n, size=200_000)
    other = rng.integers(n, size=200_000)
    near = np.array([rng.choice(np.flatnonzero(of == of[i])) for i in one[:5000]])
    positive = np.column_stack([one[:5000], near])[one[:5000] != near][:1000]
    negative = np.column_stack([one, other])[of[one] != of[other]][:1000]
    found: Row = {}
    for name, model in (("before", encoder()), ("after", lab.aligned())):
        made = model.encode_entities(arbo.KnowledgeBase(arbo.Entity(str(i), text) for i, text in enumerate(names)))
        vectors = unit(made.matrix)[made.row]
        for kind, pairs in (("synonyms", positive), ("others", negative)):
            found[f"{kind}, {name}"] = np.einsum("ij,ij->i", *(vectors[column] for column in pairs.T)).tolist()
    return found


def better_start(name: str) -> Row:
    """Train a dual-encoder from a start, and score it."""
    data = Data.of("CRAFT CL")
    start, out = encoder(), MODELS / key("oslat", "start", name)
    if name == "aligned":
        folder = MODELS / key("oslat", "cl", "aligned", hashed(ALIGNMENT))
        if not folder.is_dir():
            arbo.train_self_alignment(
                start, data.kb, out=folder, config=ALIGNMENT, options=arbo.RunOptions(announce=bars)
            )
        start = arbo.DualEncoder.from_pretrained(folder, ONE_A_NAME)
    before = recalls(data, start)
    trained = arbo.train(start, data.train, data.kb, out=out, config=START, options=arbo.RunOptions(announce=bars))
    after = recalls(data, trained)
    shutil.rmtree(out)
    return {
        f"recall@{k} {when}": of[f"recall@{k}"] for when, of in (("before", before), ("after", after)) for k in (1, 64)
    }


def end_to_end(system: str) -> Row:
    """Find and link the mentions of raw abstracts."""
    data = Data.of(END_TO_END)
    raw = Corpus(replace(document, mentions=()) for document in data.test)
    spent, (found, links) = seconds(found_and_linked, finder_of(system, data), raw, data.kb)
    scores = found_scores(data.test, found, data.kb, [link.entity for link in links])
    rows: Row = {"seconds": spent, "mentions": len(found.mentions)}
    for what, group in (("mentions", scores.mentions), ("linked", scores.links)):
        for kind, of in (("exact", group.exact), ("overlap", group.overlap)):
            rows |= {f"{what} {kind} {name}": getattr(of, name) for name in WHAT}
    return rows


def finder_of(system: str, data: Data) -> Finder:
    """Return a finder; the threshold of a model is chosen on the development part."""
    if system == "dictionary":
        return DictionaryFinder()
    return tuned(ModelFinder(Lab(END_TO_END, ncbi).trained(system)), data.dev, data.kb)


def tuned(finder: ModelFinder, documents: Corpus, kb: arbo.KnowledgeBase) -> ModelFinder:
    """Return the finder with the threshold that has the best F1 of pairs of a sentence and an entity in it."""
    pieces = Pieces.of(documents)
    text, entity = finder.candidates_of(pieces, kb, bars)
    gold_text, gold_entity = pieces.entities(kb)
    right = np.isin(text * len(kb) + entity, gold_text * len(kb) + gold_entity)
    score = Attention(finder.model).score(pieces.texts, kb, text, entity, bars)
    best = replace(threshold_curve(right, score), gold=len(gold_text)).best.threshold
    return replace(finder, model=finder.model.with_threshold(float(np.clip(best, score.min(), score.max()))))


def found_and_linked(finder: Finder, documents: Corpus, kb: arbo.KnowledgeBase) -> tuple[Corpus, Sequence[arbo.Link]]:
    """Do what `arbo link --find-mentions` does."""
    found = arbo.find_mentions(finder, documents, kb, announce=bars)
    return found, arbo.Linker(kb, announce=bars).link(found).links


def cells(corpora: Iterable[str]) -> Iterator[tuple[Cell, Callable[[], Row]]]:
    """Yield every cell with what makes it."""
    for corpus in corpora:
        lab = Lab(corpus)
        yield {"part": "similarities", "corpus": corpus, "system": "aligned"}, partial(similarities, lab)
        of_pairs = (
            *((spans, "spans", system) for system in SPANS),
            *((linking, "linking", system) for system in LINKING),
        )
        for make, part, system in of_pairs:
            if system != "CD" or corpus != "CRAFT":
                yield {"part": part, "corpus": corpus, "system": system}, partial(make, lab, system)
    for system in FINDERS:
        yield {"part": "end to end", "corpus": END_TO_END, "system": system}, partial(end_to_end, system)
    for system in STARTS:
        yield {"part": "start", "corpus": "CRAFT CL", "system": system}, partial(better_start, system)


def settings(cell: Cell) -> object:
    """Tell what a cell is made with."""
    return ALIGNMENT, TRAINING, MODEL, START, THRESHOLDS.tolist(), LIKENESS


CELLS = Cells("oslat", settings)


def record_all() -> None:
    """Record every cell that is there, and plot."""
    PLOTS.mkdir(exist_ok=True)
    order = list(dict.fromkeys(("dictionary", *SPANS, *LINKING, *STARTS)))
    figures: Figures = {}
    tables: Tables = {
        "pairs": [sizes(name) for name in TASKS],
        "settings": [
            {"stage": name} | {field: str(value) for field, value in asdict(own).items()}
            for name, own in SETTINGS.items()
        ],
    }
    disjoint_pairs = {row["corpus"]: row["disjoint"] for row in tables["pairs"]}
    kept = sorted(CELLS.read(), key=lambda cell: (cell["part"], cell["corpus"], order.index(cell["system"])))
    for cell in kept:
        scores, whose, own = cell["scores"], {"corpus": cell["corpus"], "system": cell["system"]}, []
        if cell["part"] == "similarities":
            drawn(scores, key("similarities", cell["corpus"]))
            own = [{f"mean of {name}": float(np.mean(values)) for name, values in scores.items()}]
        elif cell["part"] == "spans":
            own = [shown(scores, kind) for kind in (KINDS if disjoint_pairs[cell["corpus"]] else KINDS[-1:])]
            figures |= {key(*whose.values(), row["spans"], "micro f1"): row["micro f1"] for row in own}
        else:
            own = [scores]
            figures |= {key(*whose.values(), name): value for name, value in scores.items()}
        tables.setdefault(cell["part"], []).extend(whose | row for row in own)
    record("oslat", figures, tables, cells=kept)


def shown(scores: Row, kind: str) -> Row:
    """Choose what is shown of extracted spans of a kind."""
    row: Row = {"spans": kind}
    row |= {f"{how} {what}": scores[f"{kind} all {how} {what}"] for how in HOW for what in WHAT}
    row |= {f"micro f1 {entities}": scores[f"{kind} {entities} micro f1"] for entities in ("seen", "unseen")}
    return row | ({"tuned": scores[f"{kind} all micro f1 tuned"]} if "tuned threshold" in scores else {})


def sizes(name: str) -> Row:
    """Tell how many pairs there are."""
    task = Lab(name).task
    return {
        "corpus": name,
        "names": len(task.kb.names().names),
        "training texts": len(task.train),
        "training pairs": len(Pairs.of(task.train, task.kb)),
        "test pairs": len(task.test),
        "disjoint": int(task.test.is_disjoint.sum()),
        "of seen entities": int(np.isin(task.test.entity, task.taught).sum()),
        "texts also trained on": len({task.test.corpus[i].id for i in task.test.text} & {d.id for d in task.train}),
        "entities to choose from": len(task.universe),
        "left out, no name": task.outside,
    }


def drawn(scores: dict[str, list[float]], name: str) -> None:
    """Draw densities of similarities."""
    edges = np.linspace(-0.4, 1.0, 71)
    curves = {kind: np.histogram(values, edges, density=True)[0] for kind, values in scores.items()}
    plot_steps(edges[:-1], curves, PLOTS / f"{name}.svg", xlabel="cosine of two names", ylabel="density")


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parts = ["similarities", "spans", "linking", "end to end", "start"]
    systems = list(dict.fromkeys((*SPANS, *LINKING, *FINDERS)))
    parser = parser_of(__doc__)
    parser.add_argument("--part", choices=parts, help="default: all")
    parser.add_argument("--corpus", action="append", choices=TASKS, help="default: all")
    parser.add_argument("--system", action="append", choices=systems, help="default: all")
    parser.add_argument("--record", action="store_true", help="record what is there, and train nothing")
    chosen = parser.parse_args()
    for cell, make in () if chosen.record else cells(chosen.corpus or TASKS):
        is_asked = chosen.system is None or cell["part"] in ALONE or cell["system"] in chosen.system
        if is_asked and chosen.part in (None, cell["part"]):
            CELLS.keep(cell, lambda _, make=make: {"scores": make()})  # type: ignore[misc]
    record_all()


if __name__ == "__main__":
    main()
