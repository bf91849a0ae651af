r"""OSLAT: where texts speak of entities, and of which, learnt from texts and the entities in them alone.

A pair is a sentence and an entity in it. A tenth of the entities is unseen, none of their pairs is trained on; of each
other one a tenth of its pairs is for test (`arbo.spans.pieces.entity_split`). *CRAFT*: anatomy and cell types, the
training articles of CRAFT and of its development part but the last tenth, with UBERON and CL as knowledge base.
*QUAERO*: French drug leaflets (EMEA) and titles of articles (MEDLINE); there is no knowledge base, so that the names of
a concept are what the training parts of both call it: words of gold spans, so that in training each pair has a name of
the entity in its very text. Pairs of a concept without such a name are left out of all figures; the table *pairs*
counts them. Trained on the training part of one half without a tenth of its entities, tested on all of its test part.

`OSLAT` is the paper's three stages, names aligned, label attention, linking head, with other numbers than its (table
*settings*): the transformer is all-MiniLM-L6-v2, which was trained on English alone, names' vectors are means of their
tokens, training is short; one seed. Its head compares what a text says of a name with the name. `linear head` is that
of the paper, which judges what the text says alone; `no head` compares the two as they are. `gentle` trains attention
at a fifth of the rate. `NP` has no alignment, `No LA` no training of attention, `CD` is trained on the other half of
QUAERO, `GT` is told where the entities of a text are (others are scored by attention, so that it is no bound from
above). `rule-based` (and with plurals and accents folded), `fuzzy` and the bi-encoders (`unsup`, `MS`, `NCE`:
untrained, aligned by multi-similarity loss, aligned by NT-Xent, which is InfoNCE) are the paper's baselines.

**spans**: the words of the entity in a text, given both; stop words do not count. Micro is pooled over all pairs, macro
the mean over pairs. Attention from 0.05 on is a span, as in the paper, and a similarity of spelling from 0.8 on;
`tuned` is micro F1 by the threshold that is best on the development texts (the last tenth of CRAFT's articles).
Disjoint pairs are those whose entity stands in several pieces at once. **linking**: whether the entity of a pair is
among the k best of its text, of all entities of the test pairs.

**better start**: recall of a dual-encoder on CRAFT CL before and after 100 steps of `arbo train`'s defaults, begun with
all-MiniLM-L6-v2 as it is, or aligned.

**end to end**: what `arbo link --find-mentions` does on the raw test abstracts of NCBI disease (100), linked to MEDIC
by n-grams: mentions found, and found and linked to the right entity; `exact` is the same characters, `overlap` a common
one. `OSLAT` and `No LA` are trained on the sentences of the training part, and their threshold is chosen on the
development part. Seconds are of one core, reading files not counted.
**preselection**: how many of the entities of a sentence are among the k that a reader is asked about, of all in MEDIC,
chosen by n-grams as in the product, or by all-MiniLM-L6-v2, whose vectors of names may come from the cache.

The plots, `benchmarks/plots/similarities.*`, have the density of the cosines of 1,000 pairs of synonyms and 1,000 pairs
of names of different entities before and after alignment (figure C.1 of the paper).

`--part`, `--corpus` and `--system` choose cells; each is kept in the cache folder, so that the tables can be made in
several goes, and what is there is recorded: `--record` does that alone.

Data: `../shared/data`, or the folder that ARBO_DATA names; cache: the folder that ARBO_CACHE names (default: `.cache`
beside this script).
"""

import argparse
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from oslat_tasks import END_TO_END, QUAERO, TASKS, Ids, Task, ncbi
from report import HERE, record
from trainings import CACHE, KNOWN, Cell, Cells, Data, even, hashed, key, recalls

import arbo
from arbo.data.corpus import Corpus
from arbo.encoders.ngrams import NgramEncoder
from arbo.progress import Announce, bars, quiet
from arbo.spans.baselines import Fuzzy, RuleBased
from arbo.spans.evaluation import Scorer, extraction_scores, found_scores, text_linking_scores
from arbo.spans.finding import DictionaryFinder, Finder, PairFinder, find, without_repetition
from arbo.spans.label_attention import name_scores
from arbo.spans.model import LabelAttention
from arbo.spans.pieces import Pairs
from arbo.spans.preselection import preselect, preselection_recall
from arbo.text.names import normalize_name
from arbo.text.sentences import sentences
from arbo.text.words import fold
from eval import plot_thresholds

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

MODEL = "all-MiniLM-L6-v2"
PLOTS = HERE / "plots"
ALIGNMENT = arbo.SelfAlignmentConfig(learning_rate=5e-5, epochs=1000, steps=200, n_positives=2)
ATTENTION = arbo.LabelAttentionTraining(
    learning_rate=1e-4, epochs=1000, steps=200, batch_size=16, micro_batch=16, n_positives=2, n_negatives=50
)
GENTLE = replace(ATTENTION, learning_rate=2e-5)
HEAD = arbo.LinkingHeadConfig(learning_rate=1e-3, epochs=1000, steps=300)
LINEAR = replace(HEAD, kind="linear", learning_rate=2e-3)
START = arbo.TrainingConfig(epochs=1000, steps=100)
ONE_A_NAME = arbo.EncoderConfig()
LIKENESS = (0.6, 0.7, 0.8, 0.9)
THRESHOLDS = np.round(np.geomspace(0.01, 0.5, 18), 4)
HOW, WHAT = ("micro", "macro"), ("precision", "recall", "f1")


@dataclass(frozen=True)
class Lab:
    """The models of a corpus, each made when it is asked for and kept."""

    corpus: str
    read: Callable[[], Task] | None = None
    """What reads the data, for a corpus that is not among `TASKS`."""

    @cached_property
    def task(self) -> Task:
        """The data."""
        return (self.read or TASKS[self.corpus])()

    def aligned(self, loss: str = "nt-xent") -> arbo.DualEncoder:
        """Return an encoder whose names are aligned: those of the entities that training sees."""
        config = replace(ALIGNMENT, loss=loss)
        out = self._folder("aligned", loss, config)
        if not out.is_dir():
            start = arbo.DualEncoder.from_pretrained(MODEL, ONE_A_NAME)
            arbo.train_self_alignment(
                start, self.task.known, documents=self.task.train, out=out, config=config, announce=bars
            )
        return arbo.DualEncoder.from_pretrained(out)

    def attending(self, system: str) -> LabelAttention:
        """Return a model without a linking head."""
        aligns, config = system != "NP", attention_of(system)
        model = LabelAttention.of((self.aligned() if aligns else encoder()).mention_tower)
        if config is None:
            return model
        out = self._folder(system, "attention", ALIGNMENT if aligns else None, config)
        if not out.is_dir():
            arbo.train_label_attention(model, self.task.train, self.task.known, out=out, config=config, announce=bars)
        return LabelAttention.from_pretrained(out)

    def linking(self, system: str, head: arbo.LinkingHeadConfig = HEAD) -> LabelAttention:
        """Return a model with a linking head."""
        out = self._folder(system, ALIGNMENT if system != "NP" else None, attention_of(system), head)
        if not out.is_dir():
            model = replace(self.attending(system), cache=CACHE)
            arbo.train_linking_head(model, self.task.train, self.task.known, out=out, config=head, announce=bars)
        return LabelAttention.from_pretrained(out)

    def _folder(self, name: str, *settings: object) -> Path:
        (CACHE / "models").mkdir(parents=True, exist_ok=True)
        data = self.task.train.fingerprint, self.task.known.fingerprint
        return CACHE / "models" / key("oslat", self.corpus, name, hashed((MODEL, data, settings)))


def attention_of(system: str) -> arbo.LabelAttentionTraining | None:
    """Tell how a system's attention is trained, if at all."""
    return {"No LA": None, GENTLER: GENTLE}.get(system, ATTENTION)


def encoder() -> arbo.DualEncoder:
    """Return the start."""
    return arbo.DualEncoder.from_pretrained(MODEL, ONE_A_NAME)


@dataclass(frozen=True)
class BiEncoder:
    """Compares the vector of a text with those of names, by cosine: the best name of each entity counts."""

    encoder: arbo.DualEncoder

    def score(
        self, texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score pairs of texts and entities."""
        used, place = np.unique(entity, return_inverse=True)
        read, row = np.unique(text, return_inverse=True)
        names = self.encoder.encode_entities(arbo.KnowledgeBase(kb.entities[i] for i in used))
        whole = self.encoder.encode_entities(
            arbo.KnowledgeBase(arbo.Entity(str(i), " ".join(texts[i].split())) for i in read)
        )
        similarity = unit(whole.matrix)[whole.row] @ unit(names.matrix)[names.row].T
        first = np.searchsorted(names.owner, np.arange(len(used)))
        best: Floats = np.maximum.reduceat(similarity, first, axis=1)[row, place]
        return best


def unit(vectors: Any) -> Floats:
    """Normalise."""
    made: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


@dataclass(frozen=True)
class GoldSpans:
    """A model that is told where the entities of a text are, and looks there; at others as it learnt to."""

    model: LabelAttention
    pairs: Pairs

    def score(
        self, texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score pairs of texts and entities."""
        import torch

        scores = self.model.score(texts, kb, text, entity, announce)
        place = {(t, e): i for i, (t, e) in enumerate(zip(text.tolist(), entity.tolist(), strict=True))}
        rows = [
            i
            for i, pair in enumerate(zip(self.pairs.text.tolist(), self.pairs.entity.tolist(), strict=True))
            if pair in place
        ]
        read = sorted({int(self.pairs.text[i]) for i in rows})
        vectors = dict(zip(read, self.model.token_vectors([texts[i] for i in read]), strict=True))
        used = np.unique(self.pairs.entity[rows])
        names, owner = self.model.name_vectors(arbo.KnowledgeBase(kb.entities[e] for e in used))
        for i in rows:
            row = int(self.pairs.text[i])
            tokens, offsets = vectors[row]
            inside = np.zeros(len(offsets), np.bool_)
            for begin, end in (span for spans in self.pairs.mentions[i] for span in spans):
                inside |= (offsets[:, 0] < end) & (offsets[:, 1] > begin)
            if inside.any():
                entity = int(self.pairs.entity[i])
                own = names[torch.from_numpy(used[owner] == entity)]
                said = tokens[torch.from_numpy(inside)].mean(0).expand_as(own)
                with torch.inference_mode():
                    scores[place[row, entity]] = float(name_scores(self.model.head, said, own).max())
        return scores


GENTLER = "OSLAT, gentle"
TRAINED = ("OSLAT", GENTLER, "NP", "No LA")
NO_HEAD, LINEAR_HEAD = "OSLAT, no head", "OSLAT, linear head"
WITHOUT_HEAD = ("fuzzy", "unsup", "MS", "NCE", NO_HEAD)
SPANS = ("rule-based", "rule-based, plurals", "fuzzy", *TRAINED, "CD")
FINDERS = ("dictionary", "fuzzy", "OSLAT", "No LA")
CHOOSERS, AMONG = ("n-gram", "MiniLM"), (1, 8, 32, 64)
LINKING = (*WITHOUT_HEAD, *TRAINED, "CD", "GT", LINEAR_HEAD)


def trained_in(lab: Lab, system: str) -> Lab:
    """Tell where the model of a system is trained: on the other half for the cross-domain one."""
    return Lab(f"QUAERO {QUAERO[lab.corpus.split()[1]]}") if system == "CD" else lab


def seen_by(lab: Lab, system: str) -> Bools:
    """Tell of which test pairs the training of a system has the entity; (pairs,)."""
    return np.isin(lab.task.test.entity, trained_in(lab, system).task.taught)


def stages(system: str) -> str:
    """Tell which model a system is of."""
    return "OSLAT" if system in ("CD", "GT", NO_HEAD, LINEAR_HEAD) else system


def spans(lab: Lab, system: str) -> dict[str, Any]:
    """Extract spans of the test pairs, and score them."""
    task, test, seen = lab.task, lab.task.test, seen_by(lab, system)
    texts = [document.text for document in test.corpus]
    if system not in (*TRAINED, "CD"):
        baseline = Fuzzy() if system == "fuzzy" else RuleBased(fold if system == "rule-based" else normalize_name)
        found = told(test, baseline.spans(texts, task.kb, test.text, test.entity), seen)
        if system == "fuzzy" and task.dev is not None:
            best = max(LIKENESS, key=lambda t: micro_f1(task.dev, fuzzy_spans(task.dev, task.kb, t)))
            found |= as_tuned(told(test, fuzzy_spans(test, task.kb, best), seen), best)
        return found
    model = trained_in(lab, system).attending(stages(system))
    attention = model.attention(texts, task.kb, test.text, test.entity, bars)
    found = told(test, attention.spans(texts, test.text, threshold=0.05), seen)
    if task.dev is not None:
        dev = task.dev
        known = [document.text for document in dev.corpus]
        on_dev = model.attention(known, task.kb, dev.text, dev.entity, bars)
        best = max(THRESHOLDS.tolist(), key=lambda t: micro_f1(dev, on_dev.spans(known, dev.text, threshold=t)))
        found |= as_tuned(told(test, attention.spans(texts, test.text, threshold=best), seen), best)
    return found


def fuzzy_spans(pairs: Pairs, kb: arbo.KnowledgeBase, threshold: float) -> list[Any]:
    """Extract spans by spelling."""
    return list(Fuzzy(threshold).spans([document.text for document in pairs.corpus], kb, pairs.text, pairs.entity))


def micro_f1(pairs: Pairs | None, predicted: Sequence[Any]) -> float:
    """Score extracted spans in one number."""
    assert pairs is not None
    return extraction_scores(pairs, predicted)["all", "all"].micro.f1


def as_tuned(figures: dict[str, float], threshold: float) -> dict[str, float]:
    """Name figures by a threshold that was chosen."""
    return {f"{name} tuned": value for name, value in figures.items()} | {"tuned threshold": threshold}


def told(pairs: Pairs, predicted: Sequence[Any], seen: Bools) -> dict[str, float]:
    """Name the figures of extracted spans."""
    scores = extraction_scores(pairs, predicted, seen=seen)
    return {
        f"{kind} {entities} {how} {what}": getattr(getattr(group, how), what)
        for (kind, entities), group in scores.of.items()
        for how in HOW
        for what in WHAT
    }


def linking(lab: Lab, system: str) -> dict[str, Any]:
    """Link the texts of the test pairs."""
    task = lab.task
    scorer: Scorer
    if system == "fuzzy":
        scorer = Fuzzy()
    elif system in ("unsup", "MS", "NCE"):
        losses = {"MS": "multi-similarity", "NCE": "nt-xent"}
        scorer = BiEncoder(lab.aligned(losses[system]) if system in losses else encoder())
    elif system == "GT":
        scorer = GoldSpans(lab.linking(stages(system)), task.test)
    elif system == NO_HEAD:
        scorer = lab.attending(stages(system))
    else:
        scorer = trained_in(lab, system).linking(stages(system), LINEAR if system == LINEAR_HEAD else HEAD)
    scores = text_linking_scores(
        task.test, task.kb, scorer, universe=task.universe, seen=seen_by(lab, system), announce=bars
    )
    groups = {"all": scores.overall, "seen": scores.seen, "unseen": scores.unseen, **scores.macro["spans"].groups}
    return {f"{name} @{k}": value for name, counts in groups.items() if counts for k, value in counts.recall.items()}


def similarities(lab: Lab) -> dict[str, Any]:
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
    found: dict[str, Any] = {}
    for name, model in (("before", encoder()), ("after", lab.aligned())):
        made = model.encode_entities(arbo.KnowledgeBase(arbo.Entity(str(i), text) for i, text in enumerate(names)))
        vectors = unit(made.matrix)[made.row]
        for kind, pairs in (("synonyms", positive), ("others", negative)):
            found[f"{kind}, {name}"] = np.einsum("ij,ij->i", *(vectors[column] for column in pairs.T)).tolist()
    return found


def better_start(name: str) -> dict[str, Any]:
    """Train a dual-encoder from a start, and score it."""
    data = Data.of(KNOWN["CRAFT CL"])
    start, out = encoder(), CACHE / "models" / key("oslat", "start", name)
    if name == "aligned":
        folder = CACHE / "models" / key("oslat", "cl", "aligned", hashed(ALIGNMENT))
        if not folder.is_dir():
            arbo.train_self_alignment(start, data.kb, out=folder, config=ALIGNMENT, announce=bars)
        start = arbo.DualEncoder.from_pretrained(folder, ONE_A_NAME)
    before = recalls(data, start)
    trained = arbo.train(start, data.train, data.kb, out=out, config=START, announce=bars)
    after = recalls(data, trained)
    shutil.rmtree(out)
    return {
        f"recall@{k} {when}": of[f"recall@{k}"] for when, of in (("before", before), ("after", after)) for k in (1, 64)
    }


def end_to_end(system: str) -> dict[str, Any]:
    """Find and link the mentions of raw abstracts."""
    data = Data.of(KNOWN["NCBI disease"])
    raw = Corpus(replace(document, mentions=()) for document in data.test)
    finder: Finder = DictionaryFinder()
    if system == "fuzzy":
        finder = PairFinder(Fuzzy(), Fuzzy().threshold)
    elif system != "dictionary":
        model = Lab(END_TO_END, ncbi).linking(system)
        untuned = PairFinder(model, model.threshold, mentions=without_repetition)
        finder = untuned.tuned(data.dev, data.kb, announce=bars)
    begin = time.perf_counter()
    found = find(finder, raw, data.kb, announce=bars).corpus
    links = arbo.Linker(data.kb, announce=bars).link(found).links
    seconds = time.perf_counter() - begin
    scores = found_scores(data.test, found, data.kb, [link.entity for link in links])
    rows: dict[str, Any] = {"seconds": seconds, "mentions": len(found.mentions)}
    for what, group in (("mentions", scores.mentions), ("linked", scores.links)):
        for kind, of in (("exact", group.exact), ("overlap", group.overlap)):
            rows |= {f"{what} {kind} {name}": getattr(of, name) for name in WHAT}
    return rows


def preselection(system: str) -> dict[str, Any]:
    """Measure which entities of sentences are among those that a reader is asked about."""
    data = Data.of(KNOWN[END_TO_END])
    chooser = NgramEncoder() if system == "n-gram" else arbo.DualEncoder.from_pretrained(MODEL, ONE_A_NAME, cache=CACHE)
    begin = time.perf_counter()
    found = preselect(data.test, data.kb, max(AMONG), encoder=chooser, split=sentences, announce=bars)
    seconds = time.perf_counter() - begin
    recall = preselection_recall(found, data.kb)
    return {"seconds": seconds} | {f"recall@{k}": recall[k] for k in AMONG}


def filled(chosen: Any) -> None:
    """Make the cells that are asked for."""
    for corpus in chosen.corpus or TASKS:
        lab = Lab(corpus)
        if chosen.part in (None, "similarities"):
            cell: Cell = {"part": "similarities", "corpus": corpus, "system": "aligned"}
            CELLS.keep(cell, lambda _, lab=lab: {"scores": similarities(lab)})
        for part, systems, make in (("spans", SPANS, spans), ("linking", LINKING, linking)):
            for system in systems:
                wanted = chosen.part in (None, part) and system in (chosen.system or systems)
                if wanted and (system != "CD" or corpus != "CRAFT"):
                    cell = {"part": part, "corpus": corpus, "system": system}
                    CELLS.keep(cell, lambda _, make=make, lab=lab, system=system: {"scores": make(lab, system)})
    for system in FINDERS:
        if chosen.part in (None, "end to end") and system in (chosen.system or FINDERS):
            cell = {"part": "end to end", "corpus": END_TO_END, "system": system}
            CELLS.keep(cell, lambda _, system=system: {"scores": end_to_end(system)})
    for system in CHOOSERS:
        if chosen.part in (None, "preselection") and system in (chosen.system or CHOOSERS):
            cell = {"part": "preselection", "corpus": END_TO_END, "system": system}
            CELLS.keep(cell, lambda _, system=system: {"scores": preselection(system)})
    if chosen.part in (None, "start"):
        for name in ("untrained", "aligned"):
            cell = {"part": "start", "corpus": "CRAFT CL", "system": name}
            CELLS.keep(cell, lambda _, name=name: {"scores": better_start(name)})


def record_all() -> None:
    """Record every cell that is there, and plot."""
    PLOTS.mkdir(exist_ok=True)
    order = list(dict.fromkeys(("dictionary", *SPANS, *LINKING, *CHOOSERS, "untrained", "aligned")))
    cells = sorted(CELLS.read(), key=lambda cell: (cell["part"], cell["corpus"], order.index(cell["system"])))
    figures: dict[str, float] = {}
    tables: dict[str, list[dict[str, Any]]] = {"pairs": [sizes(name) for name in TASKS]}
    configs = {
        "alignment": ALIGNMENT,
        "attention": ATTENTION,
        "gentle attention": GENTLE,
        "head": HEAD,
        "linear head": LINEAR,
    }
    tables["settings"] = [
        {"stage": name} | {n: str(v) for n, v in asdict(own).items()} for name, own in configs.items()
    ]
    for cell in cells:
        scores, whose = cell["scores"], {"corpus": cell["corpus"], "system": cell["system"]}
        if cell["part"] == "similarities":
            drawn(scores, key("similarities", cell["corpus"]))
            whose |= {f"mean of {name}": float(np.mean(values)) for name, values in scores.items()}
            tables.setdefault("similarities", []).append(whose)
        elif cell["part"] == "spans":
            disjoint = next(row["disjoint"] for row in tables["pairs"] if row["corpus"] == cell["corpus"])
            for kind in ("contiguous", "disjoint", "all") if disjoint else ("all",):
                row = whose | {"spans": kind}
                row |= {f"{how} {what}": scores[f"{kind} all {how} {what}"] for how in HOW for what in WHAT}
                row |= {
                    f"micro f1 {entities}": scores[f"{kind} {entities} micro f1"] for entities in ("seen", "unseen")
                }
                row |= {"tuned": scores[f"{kind} all micro f1 tuned"]} if "tuned threshold" in scores else {}
                tables.setdefault("spans", []).append(row)
                figures[key(*whose.values(), kind, "micro f1")] = scores[f"{kind} all micro f1"]
        else:
            tables.setdefault(cell["part"], []).append(whose | scores)
            figures |= {key(*whose.values(), name): value for name, value in scores.items()}
    made = {title: even(rows) for title, rows in tables.items()}
    record("oslat", "python benchmarks/oslat.py", figures, tables=made)


def sizes(name: str) -> dict[str, Any]:
    """Tell how many pairs there are."""
    task = Lab(name).task
    return {
        "corpus": name,
        "names": len(task.kb.names().names),
        "training texts": len(task.train),
        "training pairs": len(Pairs.of(task.train, task.kb)),
        "test pairs": len(task.test),
        "disjoint": int(task.test.disjoint.sum()),
        "of seen entities": int(np.isin(task.test.entity, task.taught).sum()),
        "texts also trained on": len({task.test.corpus[i].id for i in task.test.text} & {d.id for d in task.train}),
        "entities to choose from": len(task.universe),
        "left out, no name": task.outside,
    }


def drawn(scores: dict[str, list[float]], name: str) -> None:
    """Draw densities of similarities."""
    edges = np.linspace(-0.4, 1.0, 71)
    curves = {kind: np.histogram(values, edges, density=True)[0] for kind, values in scores.items()}
    plot_thresholds(edges[:-1], curves, PLOTS / f"{name}.svg", xlabel="cosine of two names", ylabel="density")


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--part",
        choices=["similarities", "spans", "linking", "end to end", "preselection", "start"],
        help="default: all",
    )
    parser.add_argument("--corpus", action="append", choices=TASKS, help="default: all")
    parser.add_argument(
        "--system",
        action="append",
        choices=[*dict.fromkeys((*SPANS, *LINKING, *FINDERS, *CHOOSERS))],
        help="default: all",
    )
    parser.add_argument("--record", action="store_true", help="record what is there, and train nothing")
    asked = parser.parse_args()
    if not asked.record:
        filled(asked)
    record_all()


def settings(cell: Cell) -> object:
    """Tell what a cell is made with."""
    system = cell["system"]
    linked = cell["part"] in ("linking", "end to end") and system in {*LINKING} - {*WITHOUT_HEAD}
    head = (LINEAR if system == LINEAR_HEAD else HEAD) if linked else None
    attention = GENTLE if system == GENTLER else ATTENTION
    return ALIGNMENT, attention, head, MODEL, START, THRESHOLDS.tolist(), LIKENESS


CELLS = Cells("oslat", settings)

if __name__ == "__main__":
    main()
