"""The corpora that are linked, and what they are linked to."""

from dataclasses import dataclass, replace

import arbo
from arbo.data.corpus import Corpus
from arbo.formats import read_documents, read_knowledge_base
from library.folders import DATA


@dataclass(frozen=True, slots=True)
class Job:
    """Documents to tune on, documents to test on, and what they are linked to."""

    name: str
    format: str
    dev: str
    test: str
    types: str | tuple[str, ...] | None
    kb: str
    """A file, or a pattern of several without an id in common."""
    kb_format: str
    xrefs: tuple[str, ...] = ()

    def documents(self, path: str) -> Corpus:
        """Read one part."""
        return read_documents(DATA / path, self.format, types=self.types)

    def knowledge_base(self) -> arbo.KnowledgeBase:
        """Read what the mentions are linked to."""
        kb = read_knowledge_base(DATA / self.kb, self.kb_format)
        return kb.through_xrefs(*self.xrefs) if self.xrefs else kb

    def command(self, path: str) -> list[str]:
        """Return the words of a command that links one part."""
        names = (self.types,) if isinstance(self.types, str) else self.types or ()
        types = [word for name in names for word in ("--types", name)]
        kb = ["--kb", str(DATA / self.kb), "--kb-format", self.kb_format]
        return ["link", str(DATA / path), "--format", self.format, *types, *kb]


def _craft(ontology: str) -> Job:
    kb = f"craft/ontologies/{ontology}.obo.gz"
    return Job(f"CRAFT {ontology}", "brat", "craft/train", "craft/dev", ontology, kb, "obo")


_BC5CDR = ("pubtator", "bc5cdr/CDR_DevelopmentSet.PubTator.txt", "bc5cdr/CDR_TestSet.PubTator.txt", "Disease")
_NCBI = ("pubtator", "ncbi_disease/NCBIdevelopset_corpus.txt", "ncbi_disease/NCBItestset_corpus.txt", None)
_GSC = ("gsc", "gsc_plus/GSCplus_dev_gold.tsv", "gsc_plus/GSCplus_test_gold.tsv", None)
_MEDIC = ("medic/medic_06Jul2012.txt", "medic")
_JOBS = (
    Job("NCBI disease", *_NCBI, *_MEDIC),
    Job("BC5CDR disease", *_BC5CDR, *_MEDIC),
    *map(_craft, ("UBERON", "CL", "SO", "MOP")),
    Job("GSC+", *_GSC, "gsc_plus/hp_2013-11-30.obo.gz", "obo"),
    Job("Disease Ontology", *_BC5CDR, "disease_ontology/HumanDO_2015-11-11.obo.gz", "obo", ("MSH",)),
)
JOBS = {job.name: job for job in _JOBS}
_LARGE = replace(_craft("[CU]*"), name="CRAFT UBERON and CL", types=("CL", "UBERON"))
TRAINABLE = {name: job for name, job in JOBS.items() if name != "GSC+"} | {_LARGE.name: _LARGE}
"""Those that have a training part, and two ontologies together, whose clusters are the largest."""


@dataclass(frozen=True, slots=True)
class Data:
    """Training, development and test part, and what they are linked to."""

    train: Corpus
    dev: Corpus
    test: Corpus
    kb: arbo.KnowledgeBase

    @classmethod
    def of(cls, name: str) -> "Data":
        """Read a corpus; CRAFT's development part serves as test, the last tenth of its training documents as dev."""
        job = TRAINABLE[name]
        test, kb = job.documents(job.test), job.knowledge_base()
        if name.startswith("CRAFT"):
            train = job.documents(job.dev)
            cut = len(train) - len(train) // 10
            return cls(train[:cut], train[cut:], test, kb)
        train = job.documents(job.dev.replace("Development", "Training").replace("develop", "train"))
        return cls(train, job.documents(job.dev), test, kb)
