"""Random histories of runs that grow: documents that come, go and return, corrections along the way, and releases.

After each step, the run must equal its refit and, if the encoder does not depend on the first documents or the first
knowledge base, the run of all documents at once. A further kind of step is a method of `History` named in `STEPS`; to
try many histories: ``python tests/campaign growth``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from builders import document, kb_of
from rerankers import Oracle

import arbo
from arbo.data import MentionInput
from arbo.encoders.by_name import VectorEncoder
from arbo.engine import Vectors
from clustering import METHODS

NAMES = ["marsh fever", "marsh fevers", "fever", "kelp blight", "kelp", "zzz", "zzz fever", "marsh kelp", "she"]
E1, E2, E3 = (arbo.Entity(id_, name) for id_, name in (("E1", NAMES[0]), ("E2", NAMES[0]), ("E3", NAMES[3])))
KB = kb_of(E1, E2, E3, arbo.Entity("E4", "zzz", domain="x"))
TABLES = ("mention_table", "link_table", "cluster_table", "document_table", "entity_table", "correction_table")
N_DOCUMENTS = 9


@dataclass(frozen=True)
class LettersEncoder(VectorEncoder):
    """Dense vectors of names: which letters they have; many names are equal to it."""

    def _of(self, names: Sequence[str]) -> Any:
        counts = np.array([[1 + name.lower().count(letter) for letter in "aeks"] for name in names], np.float32)
        return Vectors.of(counts.reshape(len(names), 4))

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Any = None) -> Any:
        return self._of([item.name for item in mentions])

    def encode_entities(self, kb: arbo.KnowledgeBase, announce: Any = None) -> Any:
        return self._of([entity.name for entity in kb])


def equal(one: arbo.Result, other: arbo.Result, *, lines: bool = True) -> None:
    """Fail unless the tables of two results are equal; without ``lines``, corrections may come from other files."""
    assert one.manifest["documents"] == other.manifest["documents"]
    for name in TABLES:
        first, second = getattr(one, name), getattr(other, name)
        if name == "correction_table" and first is not None and not lines:
            first, second = (table.select(["record", "status"]) for table in (first, second))
        if first is None or second is None:
            assert first is second, name
        else:
            assert first.equals(second) or str(first.to_pylist()) == str(second.to_pylist()), name


def clusters(result: arbo.Result) -> set[frozenset[str]]:
    return {frozenset(mention.id for mention in cluster.mentions) for cluster in result.clusters}


class History:
    """A run, what it was made of, and what may happen to it next."""

    STEPS = ("remove", "add", "remove_mention", "save", "add_with_corrections", "add_with_corrections", "exchange")

    def __init__(self, seed: int, folder: Path, *, dense: bool, kb: bool, reranked: bool = False, over: Any = None):
        self.folder = folder
        self.rng = np.random.default_rng(seed)
        self.kb = KB if kb else None
        self.documents = {one.id: one for one in map(self._document, range(N_DOCUMENTS))}
        self.linker = self._linker(dense=dense, reranked=reranked and kb).configured(over=over)
        self.whole_is_equal = kb or dense
        self.there = self._some(0.5)
        self.lines: list[Any] = []
        self.lines = self._drawn_lines()
        self.result = self._decide()
        self.steps = [("begin", *self.there)]

    def _document(self, i: int) -> arbo.Document:
        name, texts = f"d{self.rng.integers(10**6)}-{i}", self.rng.choice(NAMES, self.rng.integers(0, 4))
        made = document(name, *texts, domain=[None, "x"][i % 3 == 2])
        return replace(made, metadata={"number": i} if i % 2 else {})

    def _linker(self, *, dense: bool, reranked: bool) -> arbo.Linker:
        rng = self.rng
        options: dict[str, Any] = {"method": METHODS[rng.integers(4)], "k": int(rng.integers(0, 4))}
        if rng.random() < 0.3:
            options |= {"nil_linkage": "average", "nil_threshold": 0.3}
        if rng.random() < 0.3:
            options |= {"entity_threshold": None, "mention_threshold": None}
        options["spread"] = ["none", "same-name", "graph"][rng.integers(3)]
        options["candidates"] = int(rng.integers(1, 4))
        metric = "cosine" if "nil_linkage" in options else ["cosine", "dot"][rng.integers(2)]
        encoder = LettersEncoder({}, {}, metric) if dense else arbo.NgramEncoder()
        if reranked:
            options |= [{}, {"skip_margin": 0.05}][rng.integers(2)]
        weight = [0.0, 1.5][rng.integers(2)] if reranked else 0.0
        # By the letters that both names have, with many ties.
        oracle = Oracle(lambda item, entity: len({*item.name} & {*entity.name}) % 4.0, retrieval_weight=weight)
        own = oracle if reranked else None
        return arbo.Linker(self.kb, encoder, arbo.LinkerConfig(**options), reranker=own)

    def _some(self, share: float, among: Sequence[str] | None = None) -> list[str]:
        names = [*self.documents] if among is None else among
        return [names[i] for i in self.rng.permutation(len(names)) if self.rng.random() < share]

    def _one(self, among: Sequence[Any]) -> Any:
        return among[self.rng.integers(len(among))]

    def _drawn_lines(self) -> list[Any]:
        return [self._line() for _ in range(self.rng.integers(0, 10))]

    def _line(self) -> dict[str, Any]:
        """Draw a correction of any kind; what it is about may be missing, removed, or come later."""
        near = [*self.documents] if self.rng.random() < 0.3 or not self.there else self.there
        home = self.documents[self._one(near)]
        ids = [mention.id for name in near for mention in self.documents[name].mentions]
        ids += [f"{home.id}:0-3", "gone"]
        spans = [[[*span] for span in mention.spans] for mention in home.mentions] + [[[0, 3]], [[0, 99]]]
        where: dict[str, Any] = {"document": home.id, "spans": self._one(spans)}
        one, two, three = (str(self._one(ids)) for _ in range(3))
        author = self._one([None, "Ann", "Bob"])
        earlier: dict[str, Any] = {}
        if self.lines and self.rng.random() < 0.5:  # perhaps the opposite of an earlier line
            earlier = self._one(self.lines)
            one, author = earlier.get("mention", one), self._one([author, earlier["author"]])
            where |= {key: earlier[key] for key in where if key in earlier}
        records = [
            {"mention": one, "entity": self._one(["E1", "E2", "E3", "E4", "E9", None, ["E1", "E3"]])},
            {"mention": one, "not": self._one(["E1", "E2", "E4", "E9"])},
            {"mention": one, "new": self._one(["N1", "N2"])},
            {"same": [one, two, three]},
            {"different": [one, two]},
            {**where, "drop": True},
            {**where, "add": True, "type": self._one(["T", None])},
            {**where, "resize": self._one([[[0, 2]], *spans])},
            {**where, "split": [self._one([[[0, 2]], *spans]), self._one([[[2, 4]], *spans])]},
        ]
        about = earlier.keys() & {"mention", "document"}
        record = self._one([own for own in records if about <= own.keys()])
        group = record.get("same") or record.get("different")
        if group and len(set(group)) < len(group):
            return self._line()
        return {**record, "author": author}

    def _decide(self) -> arbo.Result:
        verb = self.linker.link if self.kb else self.linker.discover
        return verb([self.documents[name] for name in self.there], self.lines)

    def step(self) -> None:
        name = self._one(self.STEPS)
        getattr(self, name)()
        self.steps.append((name, *self.there))

    def remove(self) -> None:
        gone = self._some(0.4, self.there)
        self.result = self.linker.remove(self.result, gone)
        self.there = [name for name in self.there if name not in gone]

    def remove_mention(self) -> None:
        """Remove a mention that came with its document; it does not return."""
        given = [mention.id for name in self.there for mention in self.documents[name].mentions]
        if given := [name for name in given if name in self.result.row_of]:
            gone = str(self._one(given))
            self.result = self.linker.remove(self.result, [gone])
            home = next(one for one in self.documents.values() if any(m.id == gone for m in one.mentions))
            left = tuple(mention for mention in home.mentions if mention.id != gone)
            self.documents[home.id] = replace(home, mentions=left)

    def add(self, lines: Sequence[Any] = ()) -> None:
        """Add some documents, of which some were there before."""
        new = self._some(0.5, [name for name in self.documents if name not in self.there])
        documents = [self.documents[name] for name in new]
        self.result = self.linker.add(self.result, documents, lines, other_kb=True)
        self.there += new
        self.lines = [*(line for line in self.lines if line not in lines), *lines]

    def add_with_corrections(self) -> None:
        """Add some documents and corrections; some of these are known already."""
        known = [line for line in self.lines if self.rng.random() < 0.3]
        self.add([*known, *self._drawn_lines()])

    def exchange(self) -> None:
        """Exchange the knowledge base, perhaps with documents and corrections; n-grams keep their weights."""
        if self.kb is None:
            return
        kept = [one for one in KB if self.rng.random() < 0.7]
        ids = [f"E{i}" for i in range(5, 5 + self.rng.integers(3))]
        new = [arbo.Entity(i, str(self._one(NAMES)), alternative_ids=(f"E{self.rng.integers(1, 5)}",)) for i in ids]
        ends = [arbo.Entity("E8", "kk", domain="x"), arbo.Entity("E9", "s")]  # no domain is without an entity
        self.kb = arbo.KnowledgeBase([*new, *kept, *ends] if self.rng.random() < 0.5 else [*kept, *ends, *new])
        self.linker = self.linker.configured(kb=self.kb)
        self.whole_is_equal = isinstance(self.linker.encoder, LettersEncoder)
        self.add(self._drawn_lines() if self.rng.random() < 0.5 else ())

    def save(self) -> None:
        """Save the run, and go on with what is read again."""
        name = self.folder / str(len(self.steps))
        self.result.save(name)
        self.result = arbo.Result.load(name)

    def check(self) -> None:
        """Fail unless the run equals its refit and, if it must, the run of all at once in this and any other order."""
        before = len(self._asked)
        equal(self.result, self.linker.refit(self.result))
        assert len(self._asked) == before  # all scores are kept
        if self.whole_is_equal:
            equal(self.result, self._decide(), lines=False)
            self.there, order = sorted(self.there), self.there
            assert clusters(self.result) == clusters(self._decide())
            self.there = order

    @property
    def _asked(self) -> list[tuple[str, str]]:
        return self.linker.reranker.asked if isinstance(self.linker.reranker, Oracle) else []


def live(seed: int, **kind: bool) -> None:
    """Live through a history, with a check after each step."""
    with TemporaryDirectory() as folder:
        history = History(seed, Path(folder), **kind)
        for _ in range(4):
            try:
                history.step()
                history.check()
            except Exception as error:
                error.add_note(f"seed {seed}, {kind}, {history.steps}, {history.lines}")
                raise


_OTHERS = ({"kb": True, "reranked": False}, {"kb": False, "reranked": False}, {"kb": True, "reranked": True})
KINDS = [{"dense": dense, **other} for dense in (False, True) for other in _OTHERS]
