"""What brings a general encoder to the diseases of MEDIC, step by step: its synonyms, then two training parts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import arbo
from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.progress import bars
from arbo.training.presets import PRESETS
from library.cells import hashed, key
from library.corpora import Data
from library.folders import CACHE, MODELS

ONE_A_NAME = arbo.EncoderConfig()
ONE_AN_ENTITY = replace(ONE_A_NAME, entity_view="whole")
BASE = replace(
    PRESETS["arboel"][0],
    batch_size=16,
    micro_batch=16,
    learning_rate=5e-5,
    n_negatives=4,
    epochs=1000,
    steps=250,
)
IN_BATCH = replace(BASE, positives="entity", negatives="in-batch", loss="cross-entropy")
KNN = replace(IN_BATCH, negatives="knn")
UNTRAINED = "untrained"
CORPORA = ("NCBI disease", "BC5CDR disease")
TRAININGS = {
    "aligned": replace(IN_BATCH, batch_size=64, micro_batch=64, epochs=1, steps=200),
    "trained": replace(KNN, batch_size=32, micro_batch=32, epochs=1, steps=None),
}
STEPS = (UNTRAINED, *TRAININGS)


def settings_of(step: str) -> object:
    """Tell what a step is made with."""
    if step == "aligned":
        return ONE_AN_ENTITY, TRAININGS[step]
    if step == "trained":
        return settings_of("aligned"), ONE_A_NAME, TRAININGS[step]
    return ONE_A_NAME


def model_of(step: str, data: dict[str, Data]) -> Path | str:
    """Return the model of a step, made if it is not there; ``data``: that of `CORPORA`."""
    if step == UNTRAINED:
        return "all-MiniLM-L6-v2"
    out, kb = MODELS / key("medic", step, hashed(settings_of(step))), data[CORPORA[0]].kb
    if not out.is_dir() and step == "aligned":
        align(kb, TRAININGS[step], out)
    elif not out.is_dir():
        start = arbo.DualEncoder.from_pretrained(model_of("aligned", data), ONE_A_NAME, cache=CACHE)
        documents = [document for own in data.values() for document in own.train]
        arbo.train(start, documents, kb, config=TRAININGS[step], out=out, options=arbo.RunOptions(announce=bars))
    return out


def align(kb: arbo.KnowledgeBase, config: arbo.TrainingConfig, out: Path) -> None:
    """Train MiniLM on the other names of each entity as mentions of its own name, and write it to a folder."""
    start = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", ONE_AN_ENTITY)
    own_names = arbo.KnowledgeBase(replace(entity, aliases=()) for entity in kb)
    arbo.train(start, synonyms(kb), own_names, config=config, out=out, options=arbo.RunOptions(announce=bars))


def encoder_of(step: str, data: dict[str, Data]) -> arbo.DualEncoder:
    """Return the encoder of a step, see `model_of`."""
    return arbo.DualEncoder.from_pretrained(model_of(step, data), ONE_A_NAME, cache=CACHE)


def synonyms(kb: arbo.KnowledgeBase) -> Corpus:
    """Make a document of each alias: the mention is all of it."""

    def documents() -> Iterator[Document]:
        for entity in kb:
            for place, alias in enumerate(dict.fromkeys(entity.aliases)):
                id_ = f"{entity.id}/{place}"
                if alias != entity.name:
                    yield Document(id_, alias, (Mention(id_, id_, ((0, len(alias)),), alias, None, (entity.id,)),))

    return Corpus(documents())
