"""The last two stages of OSLAT in one training: label attention, then its linking head."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from arbo.data import KnowledgeBase
from arbo.spans.model import LabelAttention
from arbo.spans.pieces import pieces
from arbo.text.sentences import Splitter, passages
from arbo.training.config import LabelAttentionTraining, LinkingHeadConfig, RunOptions
from arbo.training.data import corpora_of, job_of
from arbo.training.frame import LOG, accelerator_of, check_start, training
from arbo.training.oslat.contrastive import annotated_texts
from arbo.training.oslat.label_attention import train_label_attention
from arbo.training.oslat.linking_head import fit_head, with_tuned_threshold

_FIRST = "attention"


def train_oslat(
    model: LabelAttention,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    split: Splitter = passages,
    expand_abbreviations: bool = True,
    attention: LabelAttentionTraining | None = None,
    head: LinkingHeadConfig | None = None,
    options: RunOptions | None = None,
) -> LabelAttention:
    """Train label attention and then its linking head, and write both to a folder.

    See `train_label_attention` and `train_linking_head` for further arguments and errors. The best start is a
    transformer that `train_self_alignment` has trained. ``split`` divides documents into texts: into sentences by
    default, or not at all with `whole`; the threshold is tuned on ``dev`` for a finder with the same ``split``, which
    looks for candidates by the long forms of abbreviations unless ``expand_abbreviations`` is false.
    Afterwards, the log of label attention is in ``OUT.attention.log.jsonl``.
    """
    check_start(out, kb)
    attention, head = attention or LabelAttentionTraining(), head or LinkingHeadConfig()
    uncut = corpora_of(documents, dev)
    corpora = {name: pieces(corpus, split).corpus for name, corpus in uncut.items()}
    data = annotated_texts(corpora, kb, contrastable=True)
    job = job_of(corpora, kb, attention=attention, head=head, model=model.settings)
    with training(out, job, attention, options) as workplace:
        first = workplace.folder / _FIRST
        if first.is_dir() and not first.with_name(f"{_FIRST}.training").exists():
            trained = LabelAttention.from_pretrained(first)
        else:
            dev_pieces, told = corpora.get("dev"), _told(workplace.options, _FIRST)
            trained = train_label_attention(
                model, corpora["documents"], kb, out=first, dev=dev_pieces, config=attention, options=told
            )
        told = _told(workplace.options, "head")
        trained = fit_head(trained, data, head, replace(workplace, accelerator=accelerator_of(head), options=told))
        if workplace.is_first:
            if dev is not None:
                finding: Any = {"split": split, "expand_abbreviations": expand_abbreviations}
                trained = with_tuned_threshold(trained, uncut["dev"], kb, announce=told.announce, **finding)
            trained.save_pretrained(workplace.target)
            log = workplace.target.with_name(f"{workplace.target.name}.{_FIRST}.{LOG}")
            shutil.copyfile(workplace.folder / f"{_FIRST}.{LOG}", log)
    return LabelAttention.from_pretrained(workplace.target)


def _told(options: RunOptions, stage: str) -> RunOptions:
    """Return the options of a stage, with its own folder for TensorBoard."""
    return options if options.tensorboard is None else replace(options, tensorboard=Path(options.tensorboard) / stage)
