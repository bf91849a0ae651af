"""The verbs that learn from annotated documents: `tune`, and those of `train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import JOB, MODELS, READING, check_output, load_encoder, load_linker
from arbo.cli.options import ABBREVIATIONS, DOCS, ENCODER, KB, LINKER, Chosen, Group, Shown
from arbo.engine import Method
from arbo.errors import UsageError
from arbo.files import write_json
from arbo.progress import bars
from arbo.settings import Settings
from arbo.training import config
from arbo.training.config import PresetName, RerankingPresetName

if TYPE_CHECKING:
    from arbo.data.gold import Gold
    from arbo.linking.tuning import Tuning
    from arbo.spans.finding import Finder

_OF_STEPS = ("step", "epoch", "loss", "gradient", "learning_rate")
"""Figures of each step; the others are scores on the development documents."""

_TRAINING = "training", "arbo.training.config"
TRAINING: Group[config.TrainingConfig] = Group(*_TRAINING, "TrainingConfig")
ALIGNMENT: Group[config.SelfAlignmentConfig] = Group(*_TRAINING, "SelfAlignmentConfig")
RERANKING: Group[config.RerankingConfig] = Group(*_TRAINING, "RerankingConfig")
OSLAT: Group[config.OslatTraining] = Group(*_TRAINING, "OslatTraining")
CROSS_ENCODER: Group[arbo.CrossEncoderConfig] = Group("reranker", "arbo.encoders.cross", "CrossEncoderConfig")
LABEL_ATTENTION: Group[arbo.LabelAttentionConfig] = Group("model", "arbo.spans.model", "LabelAttentionConfig")


def _say_trained_on(documents: arbo.Corpus, kb: arbo.KnowledgeBase | None) -> None:
    gold = _read_gold(documents, kb)
    if kb is not None:
        known, annotated = int(gold.in_kb.sum()), int(gold.has_id.sum())
        trained = "mentions with a gold id have an entity of the knowledge base, and are trained on"
        console.say(f"{known:,} of {annotated:,} {trained}")
        console.warn(*filter(None, [gold.missing(documents, kb)]))


def _report(out: Path, settings: Mapping[str, Any], training: Settings, text: str) -> None:
    value = {"model": str(out), "settings": settings, "training": training.as_dict()}
    console.answer(value, f"written to {out}; log of all steps: {out}.log.jsonl\n{text}")


def _run_options() -> arbo.RunOptions:
    """Return the options of a run that shows its progress, and the scores of the model after each epoch."""

    def print_scores(figures: dict[str, Any]) -> None:
        if text := ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if name not in _OF_STEPS):
            place = f"epoch {figures['epoch'] + 1}, step {figures['step']:,}: loss {figures['loss']:.3f}"
            console.say(f"{place}; on the development documents {text}")

    return arbo.RunOptions(announce=bars, on_log=print_scores)


def _read_gold(documents: arbo.Corpus, kb: arbo.KnowledgeBase | None) -> Gold:
    """Return the gold annotations of documents, looked up in ``kb``; warn of a doubtful id, see `Gold.doubt`."""
    from arbo.data.gold import Gold

    gold = Gold.of(documents, kb)
    console.say_notes(gold.changes)
    console.warn(*filter(None, [gold.doubt()]))
    return gold


def _preset(text: str) -> Any:
    return options.option("--preset", metavar="PRESET", help=f"Start from the settings of a paper: {text}")


_ENCODER_PRESET = (
    "arboel; pel, with proxies; amh-dual or amh-mean, with adaptive mixup. Or context, without --kb: an encoder for "
    "`arbo train edges`, which learns from half of DOCS. [default: none]"
)


def encoder(
    docs: options.Documents,
    out: options.ModelOut,
    encoder: options.Start,
    how: Annotated[Chosen, Shown((TRAINING, ENCODER, READING, ABBREVIATIONS), DOCS + KB)],
    kb: options.OptionalKb = None,
    dev: options.Dev = None,
    preset: Annotated[PresetName | None, _preset(_ENCODER_PRESET)] = None,
) -> None:
    """Train a dual-encoder on annotated documents, for `arbo link --encoder` and `arbo discover --encoder`.

    Without --kb, it learns from gold clusters alone: sets of mentions with the same gold id or gold cluster.

    `arbo train encoder train.txt --dev dev.txt --kb doid.obo --encoder all-MiniLM-L6-v2 --out model`, then `arbo link
    test.txt --kb doid.obo --encoder model --out run`.

    Without a preset, a transformer that arbo did not train reads only names, of mentions and entities alike. With a
    preset and --kb, mentions and entities get a transformer each. --dev selects the best model and its default
    thresholds.
    """
    from arbo.encoders.encoder import NO_LIMIT
    from arbo.pipeline.saved_run import changed_encoder
    from arbo.training.presets import PRESETS

    if "best" in how.changes(TRAINING) and dev is None:
        raise UsageError("best chooses the model by its score on --dev; add --dev, or leave best out")
    learning, reads = (None, None) if preset is None else PRESETS[preset]
    defaults = learning or (config.WITHOUT_KB if kb is None else config.TrainingConfig())
    if kb is None and defaults.best.startswith("recall"):
        defaults = replace(defaults, best=config.WITHOUT_KB.best)
    settings = how.of(TRAINING, defaults)
    start = arbo.DualEncoder.from_pretrained(encoder, reads)
    start = changed_encoder(start, how.changes(ENCODER)).with_markers()
    if preset is not None and kb is not None:
        start = start.with_two_towers()
    documents, base, held_out = how.of(READING).all(docs, kb, dev)
    _say_trained_on(documents, base)
    expand = how.of(ABBREVIATIONS).expand_abbreviations
    for_edges = settings.positives == "all"
    if dev is None and not for_edges:
        console.warn("without --dev the last model is kept, and its thresholds are not tuned; run `arbo tune`")
    more: Any = {"dev": held_out, "options": _run_options(), "expand_abbreviations": expand}
    trained = arbo.train(start, documents, base, out=out, config=settings, **more)
    entity, mention = ("none" if limit >= NO_LIMIT[trained.metric] else f"{limit:.3f}" for limit in trained.threshold)
    verb = "train edges" if for_edges else "discover" if kb is None else "link"
    verb = f"arbo {verb} DOCS{' --dev DEV' * for_edges} --encoder {out}"
    verb += " --set expand_abbreviations=false" * (not expand)
    limits = f"default thresholds {entity} (entity) and {mention} (mention)"
    text = f"{'half of DOCS have taught it' if for_edges else limits}\nnext: {verb} ..."
    _report(out, trained.settings, settings, text)


def names(
    kb: options.Kb,
    out: options.ModelOut,
    encoder: options.Start,
    how: Annotated[Chosen, Shown((ALIGNMENT, ENCODER, READING), KB)],
) -> None:
    """Train an encoder to map all names of an entity to similar vectors.

    `arbo train names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`. The result is an encoder like any other
    and a good start for `arbo train encoder` and `arbo train finder`.
    """
    from arbo.pipeline.saved_run import changed_encoder

    settings = how.of(ALIGNMENT)
    # OSLAT, section 3.1: the first token's vector is aligned.
    start = arbo.DualEncoder.from_pretrained(encoder, arbo.EncoderConfig(pooling="cls"))
    start, entities = changed_encoder(start, how.changes(ENCODER)), how.of(READING).knowledge_base(kb)
    console.say(f"aligning the names of {len(entities):,} entities")
    trained = arbo.train_self_alignment(start, entities, out=out, config=settings, options=_run_options())
    words = f"DOCS --encoder {out} ..."
    _report(out, trained.settings, settings, f"next: arbo train finder {words}, or arbo link {words}")


_NAMES = "Also learn to link with a knowledge base to which `arbo kb edit --add-names` added the names of DOCS."


def edges(
    docs: options.Documents,
    how: Annotated[Chosen, Shown((LINKER, MODELS._replace(only="encoder"), ENCODER, READING, JOB), DOCS + KB)],
    dev: Annotated[Path, Option(metavar="DOCS", help="Annotated documents: they calibrate and choose settings.")],
    out: Annotated[Path, Option(help="JSON file to write, which `--edges` of other verbs reads.")],
    kb: options.OptionalKb = None,
    names: Annotated[bool, Option("--names", help=_NAMES)] = False,
) -> None:
    """Train an edge model for `--edges` of link, discover and tune: it says whether two mentions mean the same.

    `arbo train edges train.jsonl --dev dev.jsonl --out edges.json`, then `arbo discover test.jsonl --edges edges.json
    --out run`. With --kb the edge model also says whether a mention means an entity. Gold ids and gold clusters both
    say which mentions mean the same. Training takes about a minute for a million pairs, and needs no GPU.
    """
    if names and not kb:
        raise UsageError("--names needs --kb, the knowledge base that gets the names; give --kb, or leave --names out")
    check_output(out, "edges", ("",), *docs, dev, kb)
    linker = load_linker(how)
    documents, base, held_out = how.of(READING).all(docs, kb, dev)
    assert held_out is not None
    model = arbo.train_edges(documents, held_out, base, linker=linker, names=names)
    model.save(out)
    pairs = ", ".join(f"{count:,}" for count in model.trained["pairs"])
    recall = {name: f"{share:.1%}" for name, share in model.trained["recall"].items()}
    text = (
        f"of the pairs of mentions in --dev that mean the same, {recall['all']} are compared: found by place "
        f"{recall['near']}, by shared words {recall['words']}, by similar names in other documents {recall['names']}\n"
        f"trained on {pairs} pairs; written to {out}\n"
    )
    if chosen := model.config:
        limits = (chosen[f"{kind}_threshold"] for kind in (("entity", "mention") if kb else ("mention",)))
        words = ",".join("none" if limit is None else f"{limit:.3f}" for limit in limits)
        method = f"--method {chosen['method']} " if kb else ""
        text += f"--dev chose {method}--k {chosen['k']} --threshold {words}, which {out} keeps\n"
    own = f" --encoder {model.trained['encoder']['model']}" if "model" in model.trained["encoder"] else ""
    text += f"next: arbo {'link DOCS --kb KB' if kb else 'discover DOCS'}{own} --edges {out} ..."
    console.answer({"edges": str(out), **model.settings}, text)


_ATTENDS = "Train label attention (OSLAT) from this transformer, best one of `arbo train names`. [default: a tagger]"


def finder(
    docs: options.Documents,
    kb: options.Kb,
    out: options.ModelOut,
    how: Annotated[Chosen, Shown((OSLAT, LABEL_ATTENTION, READING, ABBREVIATIONS), DOCS + KB)],
    dev: options.Dev = None,
    encoder: Annotated[str | None, options.model("--encoder", metavar="MODEL", help=_ATTENDS)] = None,
) -> None:
    """Train a model that finds mentions in unmarked texts, for `arbo find --finder` and `arbo link --find-mentions`.

    `arbo train finder train.txt --kb medic.txt --out model`, then `arbo find test.txt --kb medic.txt --finder model`.

    A tagger learns from the words of marked mentions and the words around them, and from the names of --kb, which
    should not have the names of DOCS. It takes about a minute and no weights.

    With --encoder, label attention (OSLAT) learns from the entities of each sentence of DOCS, but not from their
    positions. With --dev, the mentions that the model finds there are scored.
    """
    next_ = f"next: arbo link DOCS --find-mentions {out} ..."
    if encoder is None:
        if how.changes(OSLAT) or how.changes(LABEL_ATTENTION):
            raise UsageError("settings of the training need --encoder, since a tagger has none; leave them out")
        check_output(out, "tagger", ("",), *docs, kb)
        documents, base, held_out = how.of(READING).all(docs, kb, dev)
        expand = how.of(ABBREVIATIONS).expand_abbreviations
        tagger = arbo.train_tagger(documents, base, expand_abbreviations=expand, announce=bars)
        tagger.save(out)
        value = {"model": str(out), "names": len(tagger.names), "features": int(tagger.weights.any(axis=1).sum())}
        console.answer(value, f"written to {out}\n{_scores_of(tagger, held_out, base)}{next_}")
        return
    start = arbo.DualEncoder.from_pretrained(encoder)
    if not start.shared:
        raise UsageError(f"{encoder} has two transformers; start from an encoder with one, as of `arbo train names`")
    pooled = arbo.LabelAttentionConfig(pooling="cls" if start.config.pooling == "cls" else "mean")
    reads, settings = how.of(LABEL_ATTENTION, pooled), how.of(OSLAT)
    model = replace(arbo.LabelAttention.of(start.mention_tower, reads), learnt=start.learnt)
    documents, base, held_out = how.of(READING).all(docs, kb, dev)
    _say_trained_on(documents, base)
    trained = arbo.train_oslat(model, documents, base, out=out, config=settings, options=_run_options())
    _report(out, trained.settings, settings, _scores_of(arbo.ModelFinder(trained), held_out, base) + next_)


def _scores_of(found_by: Finder, held_out: arbo.Corpus | None, kb: arbo.KnowledgeBase) -> str:
    """Score the mentions that a finder finds in development documents, if there are any."""
    from arbo.spans.evaluation import found_scores

    if held_out is None:
        return ""
    corpus = arbo.find_mentions(found_by, held_out, kb, announce=bars)
    exact = found_scores(held_out, corpus, kb, [None] * corpus.n_mentions).mentions.exact
    return f"mentions of --dev: precision {exact.precision:.3f}, recall {exact.recall:.3f}, F1 {exact.f1:.3f}\n"


_CANDIDATES_OF = "Encoder that finds the candidates: `ngram` or a transformer, as in `arbo link --encoder`."
_RERANKER_PRESET = "arboel (64 candidates, score of the first token), or pel (16, score of the mean of all tokens)."


def reranker(
    docs: options.Documents,
    kb: options.Kb,
    out: options.ModelOut,
    encoder: options.Start,
    how: Annotated[Chosen, Shown((RERANKING, CROSS_ENCODER, READING, ABBREVIATIONS, JOB), DOCS + KB)],
    dev: options.Dev = None,
    candidates_of: Annotated[str, options.option(metavar="MODEL", help=_CANDIDATES_OF)] = "ngram",
    preset: Annotated[RerankingPresetName, _preset(_RERANKER_PRESET)] = "arboel",
) -> None:
    """Train a cross-encoder to choose among the candidates of an encoder, for `arbo link --reranker`.

    `arbo train reranker train.txt --dev dev.txt --kb doid.obo --candidates-of ngram
    --encoder all-MiniLM-L6-v2 --out cross`, then `arbo link test.txt --kb doid.obo
    --reranker cross --out run`.
    """
    from arbo.training.presets import RERANKING_PRESETS

    learning, reading = RERANKING_PRESETS[preset]
    settings, reads = how.of(RERANKING, learning), how.of(CROSS_ENCODER, reading)
    source = arbo.DualEncoder.from_pretrained(encoder)
    start = replace(arbo.CrossEncoder.of(source.mention_tower, reads).with_markers(), learnt=source.learnt)
    candidates = load_encoder(candidates_of, how)
    documents, base, held_out = how.of(READING).all(docs, kb, dev)
    _say_trained_on(documents, base)
    linker_config = arbo.LinkerConfig(expand_abbreviations=how.of(ABBREVIATIONS).expand_abbreviations)
    linker = arbo.Linker(base, candidates, linker_config, announce=bars)
    more: Any = {"dev": held_out, "options": _run_options()}
    trained = arbo.train_reranker(start, linker, documents, out=out, config=settings, **more)
    model = candidates.settings.get("model", "ngram")
    text = f"next: arbo link DOCS --encoder {model} --reranker {out} ..."
    _report(out, trained.settings, settings, f"{text}; if mentions can be NIL, run arbo tune first")


_METHOD = f"With --kb, try only this method: {', '.join(get_args(Method))}. [default: all]"
_OBJECTIVE = "Score to maximise: with --kb accuracy_with_nil (default) or nil_f1; else ari (default), b3, conll or lea."

_MODELS = MODELS._replace(only="encoder edges reranker")


def tune(
    docs: options.Documents,
    how: Annotated[Chosen, Shown((LINKER, _MODELS, ENCODER, READING, JOB), DOCS + KB)],
    out: Annotated[Path, Option(help="JSON file to write, for `--config` of link and discover.")],
    kb: options.OptionalKb = None,
    objective: Annotated[str | None, options.clustering("--objective", metavar="SCORE", help=_OBJECTIVE)] = None,
    method: Annotated[Method | None, options.clustering("--method", metavar="METHOD", help=_METHOD)] = None,
) -> None:
    """Choose k, method and thresholds on documents with gold annotations.

    With a knowledge base and enough links, it also fits a confidence, the probability that a link is correct, which
    `arbo link --config` then writes for each link. Without a knowledge base, it tries all thresholds.
    """
    from arbo.linking.config import objective_of

    score: Any = objective  # checked by `objective_of`
    if how.of(MODELS).reranker and kb is None:
        raise UsageError("--reranker needs --kb, since it compares mentions with entities")
    objective_of(score, method, discovers=kb is None)
    check_output(out, "tuned", (".json",), *docs)
    linker = load_linker(how)
    documents, base, _ = how.of(READING).all(docs, kb)
    linker = linker.configured(kb=base)
    _read_gold(documents, base)
    console.warn(*linker.learnt(documents))
    linker = linker.tune(documents, objective=score, method=method)
    tuning = linker.tuning
    assert tuning is not None
    content = {
        "config": linker.config.as_dict(),
        "encoder": linker.encoder.settings,
        "reranker": linker.reranker.settings if linker.reranker else None,
        "edges": None if linker.edges is None or linker.config.treat_as == "list" else linker.edges.settings,
        "tuning": tuning.as_dict(),
    }
    write_json(content, out)
    value: dict[str, Any] = {"config": content["config"], "objective": tuning.objective, "score": tuning.best.score}
    value["reliability"] = tuning.reliability and tuning.reliability.as_dict()
    reliability = "" if tuning.reliability is None else f"\n{tuning.reliability}\n\n"
    if tuning.note:
        console.say(tuning.note)
    console.answer(value, f"{_summary(linker, tuning)}\n{reliability}written to {out}")


def _summary(linker: arbo.Linker, tuning: Tuning) -> str:
    """Describe the best configuration; discovery has neither methods nor entity edges."""
    names = ("k", "entity_threshold", "mention_threshold", "nil_threshold")
    chosen = {name: getattr(linker.config, name) for name in (names if linker.kb is None else ("method", *names))}
    texts = {name: f"{value:.3f}" if isinstance(value, float) else str(value) for name, value in chosen.items()}
    settings = ", ".join(f"{name}={text}" for name, text in texts.items() if text != "default")
    trials = f"{len(tuning.trials):,} trials; a trial can cover all thresholds"
    return f"{tuning.objective} {tuning.best.score:.4f}: {settings} ({trials})"
