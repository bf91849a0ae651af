"""Find words that are spelt like a name of an entity, without a model.

This is a baseline of Li et al. 2022 (section 6.3), which needs `pip install rapidfuzz`. It is strong there, as the
entities of each text are known. A pair is ``(texts[text[i]], kb.entities[entity[i]])``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from arbo.data import KnowledgeBase
from arbo.progress import Announce, quiet
from arbo.spans.finding import Proposal, Spans, without_overlaps
from arbo.text.words import Offsets, content_words, fold, offsets_of, unwrapped, words
from clustering.arrays import Floats, Ids

_BREAK = re.compile(r"[,;:)\]](?=\s)|(?<=\s)[(\[]|\n")
_AT_ONCE = 256  # number of entities to compare with a text at once, which bounds the memory


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """Finds runs of words that are spelt like a name of the entity, by normalised Levenshtein similarity.

    The similarity is 1 minus the edit distance divided by the length of the longer string, after words are folded and
    joined by one blank. A run has at most one word more than the name.
    """

    threshold: float = 0.8  # minimum similarity of a span

    def spans(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> list[Spans]:
        """Return, for each pair, the runs at or above the threshold; of overlapping runs, the most similar."""
        found: list[Spans] = [()] * len(text)
        for pair, runs, similarity in self._similarities(texts, kb, text, entity, announce):
            kept = np.flatnonzero(similarity >= self.threshold)
            scored = zip(runs[kept].tolist(), similarity[kept].tolist(), strict=True)
            chosen = without_overlaps(Proposal(0, ((begin, end),), 0, score) for (begin, end), score in scored)
            found[pair] = tuple(one.spans[0] for one in chosen)
        return found

    def score(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Return the similarity of the most similar run for each pair; 0 for a text without words."""
        best = np.zeros(len(text), np.float32)
        for pair, _, similarity in self._similarities(texts, kb, text, entity, announce):
            best[pair] = similarity.max(initial=0.0)
        return best

    def _similarities(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce
    ) -> Iterator[tuple[int, Offsets, Floats]]:
        """Yield each pair, the runs of its text, and the similarity of each to the nearest name; -1 if too long."""
        of = {row: kb.entities[row] for row in np.unique(entity).tolist()}
        names = {row: list(dict.fromkeys(map(_comparable, (own.name, *own.aliases)))) for row, own in of.items()}
        for row, pairs in _by_text(text, announce):
            for begin in range(0, len(pairs), _AT_ONCE):
                chosen = pairs[begin : begin + _AT_ONCE]
                sought = [names[int(entity[pair])] for pair in chosen]
                flat = [name for own in sought for name in own]
                most = np.array([name.count(" ") + 2 for name in flat])
                runs = windows(unwrapped(texts[row]), int(most.max()))
                size = np.diff(np.searchsorted(words(texts[row])[:, 0], runs), axis=1)[:, 0]
                read = [_comparable(texts[row][first:last]) for first, last in runs.tolist()]
                similarity = cdist(flat, read, scorer=Levenshtein.normalized_similarity, dtype=np.float32)
                similarity[size > most[:, None]] = -1.0
                first_name = np.cumsum([0, *map(len, sought[:-1])])
                for pair, best in zip(chosen, np.maximum.reduceat(similarity, first_name, axis=0), strict=True):
                    yield pair, runs, best


def _by_text(text: Ids, announce: Announce) -> Iterable[tuple[int, list[int]]]:
    pairs: dict[int, list[int]] = {}
    for pair, row in enumerate(text.tolist()):
        pairs.setdefault(row, []).append(pair)
    return announce("texts")(pairs.items(), len(pairs))


def _comparable(name: str) -> str:
    """Return the folded words of a name; a name without words, such as "+++", is returned as it is."""
    return " ".join(fold(name[begin:end]) for begin, end in words(name)) or name.strip()


def windows(text: str, most: int) -> Offsets:
    """Return the offsets of all runs of one to ``most`` words that begin and end with a content word, shortest first.

    No run extends over a line end, or over a comma, semicolon, colon or bracket beside white space.

    >>> text = "pain in the knee"
    >>> [text[begin:end] for begin, end in windows(text, 4)]
    ['pain', 'knee', 'pain in the knee']
    """
    begin, end = words(text).T
    phrase = np.searchsorted([at.start() for at in _BREAK.finditer(text)], begin)
    is_content = np.isin(begin, [first for first, _ in content_words(text)])
    runs = []
    for length in range(min(most, len(begin))):
        last = slice(length, None)
        first = slice(len(begin) - length)
        is_run = is_content[first] & is_content[last] & (phrase[first] == phrase[last])
        runs.append(np.stack([begin[first][is_run], end[last][is_run]], axis=1))
    return np.concatenate(runs) if runs else offsets_of(())
