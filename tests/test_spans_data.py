"""Similarity of spelling against brute force, and pieces that lose no character of a mention."""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, strategies as st

from arbo import Corpus, Document, Entity, KnowledgeBase, Mention, MissingDependency
from arbo.spans.baselines import Fuzzy
from arbo.spans.pieces import pieces
from arbo.text.sentences import lines, sentences
from arbo.text.words import fold, windows, words

KB = KnowledgeBase(
    [
        Entity("D1", "cancer of the breast", ("breast cancer", "cancer")),
        Entity("D2", "fever", ("hay fever", "+++")),
        Entity("D3", "knee pain"),
    ]
)
TEXTS = ["Breast-cancer, cancer in fevers.", "", "of the", "Hay  fever! Hay\r\nFEVER \U0001f600"]


def pairs(*given: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    text, entity = np.array(given, np.int64).reshape(-1, 2).T
    return text, entity


def levenshtein(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        row, last = [i], row
        for j, b in enumerate(other, start=1):
            row.append(min(row[-1] + 1, last[j] + 1, last[j - 1] + (a != b)))
    return row[-1]


def test_fuzzy_is_the_best_similarity_of_all_runs_and_names() -> None:
    pytest.importorskip("rapidfuzz")
    text, entity = pairs(*((t, e) for e in (2, 0, 1) for t in (3, 0, 1, 2)))

    def folded(name: str) -> str:
        return " ".join(fold(name[a:b]) for a, b in words(name)) or name

    for t, e, score in zip(text, entity, Fuzzy().score(TEXTS, KB, text, entity), strict=True):
        names = [KB.entities[e].name, *KB.entities[e].aliases]
        expected = max(
            (
                1 - levenshtein(folded(run), folded(name)) / max(len(folded(run)), len(folded(name)))
                for name in names
                for run in (TEXTS[t][a:b] for a, b in windows(TEXTS[t], 1 + max(1, len(words(name)))))
            ),
            default=0,
        )
        assert score == pytest.approx(expected, abs=1e-6)
    assert Fuzzy(0.8).spans(TEXTS, KB, *pairs((0, 1), (3, 1), (0, 0))) == [
        ((25, 31),),
        ((0, 10), (17, 22)),  # a line end ends a run
        ((0, 13), (15, 21)),
    ]
    assert Fuzzy().spans(TEXTS, KB, *pairs()) == []


def test_a_fuzzy_score_does_not_depend_on_what_else_is_asked() -> None:
    pytest.importorskip("rapidfuzz")
    kb = KnowledgeBase([Entity("D1", "a1 b2"), Entity("D2", "c1 c2 c3 c4 c5 c6"), Entity("D3", "abcd")])
    texts = ["a 1 b 2", "a b c d"]
    pair = pairs((0, 0), (1, 2))
    with_others = pairs((0, 0), (1, 2), (0, 1), (1, 1))
    assert Fuzzy(0.0).spans(texts, kb, *pair) == Fuzzy(0.0).spans(texts, kb, *with_others)[:2]
    assert Fuzzy().score(texts, kb, *pair).tolist() == Fuzzy().score(texts, kb, *with_others)[:2].tolist()


def test_a_missing_rapidfuzz_names_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    with pytest.raises(MissingDependency, match=r"pip install 'arbo\[spans\]'"):
        Fuzzy().score(TEXTS, KB, *pairs((0, 0)))


# Pieces -----------------------------------------------------------------------------------------------

fragments = st.tuples(st.integers(0, 19), st.integers(1, 8)).map(lambda at: (at[0], at[0] + at[1]))


@st.composite
def documents(draw: st.DrawFn) -> Corpus:
    made = []
    for name in ("d", "d/1"):
        text = draw(st.text(alphabet="ab. \n\r", max_size=20))
        own = draw(st.lists(st.lists(fragments, min_size=1, max_size=2), max_size=3))
        spans = [tuple((b, min(e, len(text))) for b, e in mention if b < len(text)) for mention in own]
        mentions = [
            Mention(f"{name}:{i}", name, given, " ".join(text[b:e] for b, e in given), gold=("D1",))
            for i, given in enumerate(spans)
            if given
        ]
        made.append(Document(name, text, tuple(mentions), domain="x"))
    return Corpus(made)


@pytest.mark.parametrize("split", [lines, sentences])
@given(corpus=documents())
def test_pieces_keep_every_character_of_every_mention(split: object, corpus: Corpus) -> None:
    cut = pieces(corpus, split)  # type: ignore[arg-type]
    covered: dict[str, list[int]] = defaultdict(list)
    for piece, row, begin in zip(cut.corpus, cut.document, cut.begin, strict=True):
        document = corpus[int(row)]
        assert document.text[begin : begin + len(piece.text)] == piece.text
        assert piece.id.rpartition("/")[0] == document.id
        assert piece.id.rpartition("/")[2].split("#")[0] == str(document.text.count("\n", 0, int(begin)) + 1)
        assert piece.domain == document.domain
        for mention in piece.mentions:
            places = [int(begin) + at for start, end in mention.spans for at in range(start, end)]
            covered[mention.id.split("@")[0]] += [at for at in places if not document.text[at].isspace()]
    for mention in corpus.mentions:
        text = corpus[0].text if mention.document_id == "d" else corpus[1].text
        places = [at for start, end in mention.spans for at in range(start, end) if not text[at].isspace()]
        assert sorted(covered[mention.id]) == sorted(places)


def test_mentions_over_line_ends_are_counted() -> None:
    mentions = (
        Mention("m", "d", ((0, 1), (2, 8)), "a b\r\nc d", gold=("D1",)),
        Mention("w", "d", ((3, 5),), "\r\n", gold=("D1",)),
    )
    cut = pieces(Corpus([Document("d", "a b\r\nc d", mentions)]))
    assert [[(m.id, m.text) for m in piece.mentions] for piece in cut.corpus] == [[("m", "a b")], [("m@d/2", "c d")]]
    assert sorted(cut.corpus.notes.values()) == [1, 1]
