"""The data of the experiment: texts to train on, pairs of a text and an entity to test on, and a knowledge base."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import arbo
from arbo.data.corpus import Corpus
from arbo.data.documents import Document
from arbo.formats import read_documents, read_knowledge_base
from arbo.text.words import sentences
from clustering.arrays import Ids
from library.corpora import Data
from library.folders import DATA
from library.oslat.entity_split import entity_split
from library.oslat.pairs import Pairs, pieces

END_TO_END = "NCBI disease"
QUAERO = {"EMEA": "MEDLINE", "MEDLINE": "EMEA"}
"""The other half of each."""


@dataclass(frozen=True)
class Task:
    """Texts to train on, pairs to test on, and a knowledge base."""

    kb: arbo.KnowledgeBase
    train: Corpus
    test: Pairs
    dev: Pairs | None
    outside: int
    """Pairs of the test part whose entity the knowledge base lacks."""
    unseen: Ids
    """Entities that training does not know to exist."""

    @cached_property
    def known(self) -> arbo.KnowledgeBase:
        """What training is told of the knowledge base."""
        left_out = set(self.unseen.tolist())
        return arbo.KnowledgeBase(entity for row, entity in enumerate(self.kb) if row not in left_out)

    @cached_property
    def taught(self) -> Ids:
        """Entities that training has pairs of."""
        return np.unique(Pairs.of(self.train, self.kb).entity)

    @property
    def universe(self) -> Ids:
        """Entities that texts are linked to."""
        return np.unique(self.test.entity)


def craft() -> Task:
    """Read UBERON and CL together; the last tenth of the articles serves to tune."""
    both = [
        document
        for part in ("train", "dev")
        for document in read_documents(DATA / "craft" / part, "brat", types=("UBERON", "CL"))
    ]
    ontologies = (DATA / f"craft/ontologies/{name}.obo.gz" for name in ("UBERON", "CL"))
    kb = arbo.KnowledgeBase(entity for path in ontologies for entity in read_knowledge_base(path, "obo"))
    cut = len(both) - len(both) // 10
    learnt, held = (named(pieces(Corpus(part), sentences).corpus) for part in (both[:cut], both[cut:]))
    split = entity_split(learnt, kb)
    return Task(kb, split.train, split.test, Pairs.of(held, kb), 0, split.unseen)


def quaero(half: str) -> Task:
    """Read one half; names are those of the training parts of both."""
    trained = {name: quaero_part(name, "train") for name in QUAERO}
    kb = surface_forms(document for corpus in trained.values() for document in corpus)
    learnt = named(pieces(trained[half], sentences).corpus)
    split = entity_split(learnt, kb, test=0.0)
    tested = named(pieces(quaero_part(half, "test"), sentences).corpus)
    test = Pairs.of(tested, kb)
    outside = len({(d.id, id_) for d in tested for m in d.mentions for id_ in m.gold or () if id_ not in kb})
    return Task(kb, split.train, test, None, outside, split.unseen)


def quaero_part(half: str, part: str) -> Corpus:
    """Read a part of a half, packed or not."""
    path = min((DATA / "quaero" / part).glob(f"{half}*"))
    with TemporaryDirectory() as folder:
        if path.is_file():
            shutil.unpack_archive(path, folder, filter="data")
            path = next(Path(folder).rglob("*.ann")).parent
        return read_documents(path, "brat")


def surface_forms(documents: Iterator[Document]) -> arbo.KnowledgeBase:
    """Make an entity of each concept, called as its mentions are."""
    names: dict[str, dict[str, None]] = {}
    for document in documents:
        for mention in document.mentions:
            for id_ in mention.gold or ():
                names.setdefault(id_, {}).setdefault(" ".join(mention.text.split()))
    return arbo.KnowledgeBase(
        arbo.Entity(id_, first, tuple(rest)) for id_, (first, *rest) in ((i, list(own)) for i, own in names.items())
    )


def named(corpus: Corpus) -> Corpus:
    """Leave out texts without any entity, as the paper does."""
    return Corpus(document for document in corpus if any(mention.gold for mention in document.mentions))


def ncbi() -> Task:
    """Read NCBI disease whole: all of MEDIC is known to training."""
    data = Data.of(END_TO_END)
    train, dev, test = (named(pieces(part, sentences).corpus) for part in (data.train, data.dev, data.test))
    return Task(data.kb, train, Pairs.of(test, data.kb), Pairs.of(dev, data.kb), 0, np.empty(0, np.int64))


TASKS: Mapping[str, Callable[[], Task]] = {"CRAFT": craft} | {
    f"QUAERO {half}": partial(quaero, half) for half in QUAERO
}
