"""The experiment of OSLAT: split by entities, pieces, baselines by spelling, and scores against brute force."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from arbo import Corpus, Document, Entity, KnowledgeBase, Mention, load_sample
from arbo.data.documents import text_of
from arbo.text.sentences import lines, sentences
from arbo.text.words import content_words, fold, windows, words

pytest.importorskip("rapidfuzz")
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from library.oslat.entity_split import EntitySplit, documents_of, entity_split
from library.oslat.fuzzy import Fuzzy
from library.oslat.pairs import Pairs, pieces
from library.oslat.rule_based import rule_based
from library.oslat.scores import given_scores, linked_scores

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
    kb = KnowledgeBase([Entity("D1", "a1 b2"), Entity("D2", "c1 c2 c3 c4 c5 c6"), Entity("D3", "abcd")])
    texts = ["a 1 b 2", "a b c d"]
    pair = pairs((0, 0), (1, 2))
    with_others = pairs((0, 0), (1, 2), (0, 1), (1, 1))
    assert Fuzzy(0.0).spans(texts, kb, *pair) == Fuzzy(0.0).spans(texts, kb, *with_others)[:2]
    assert Fuzzy().score(texts, kb, *pair).tolist() == Fuzzy().score(texts, kb, *with_others)[:2].tolist()


def test_rule_based_finds_the_longest_names() -> None:
    found = rule_based(TEXTS, KB, *pairs((3, 1), (0, 0), (0, 1), (1, 0), (2, 1), (0, 0)))
    assert found == [((0, 10), (17, 22)), ((0, 13), (15, 21)), (), (), (), ((0, 13), (15, 21))]


def corpus_of(entities: list[list[int]]) -> tuple[Corpus, KnowledgeBase]:
    """Texts that name entities, each in a mention, some in two."""
    kb = KnowledgeBase(Entity(f"E{i}", f"name {i}") for i in range(30))
    made = []
    for row, own in enumerate(entities):
        mentions = [
            Mention(f"{row}:{i}", str(row), ((i, i + 1),), "x", gold=(f"E{e}",)) for i, e in enumerate([*own, *own[:1]])
        ]
        made.append(Document(str(row), "x" * 9, tuple(mentions)))
    return Corpus(made), kb


def with_gaps(document: Document) -> Document:
    spans = ((0, 1), (3, 4))
    text = text_of(spans, document.text)
    return replace(document, mentions=tuple(replace(of, spans=spans, text=text) for of in document.mentions))


collections = st.lists(st.lists(st.integers(0, 29), max_size=5, unique=True), min_size=5, max_size=120).filter(any)


def pairs_in(corpus: Corpus) -> set[tuple[str, str]]:
    return {(m.document_id, id_) for m in corpus.mentions for id_ in m.gold or ()}


@settings(max_examples=40)
@given(collections, st.integers(0, 3))
def test_every_split_keeps_its_promises(entities: list[list[int]], seed: int) -> None:
    corpus, kb = corpus_of(entities)
    split = entity_split(corpus, kb, seed=seed)
    test = {
        (corpus[int(t)].id, kb.entities[e].id) for t, e in zip(split.test.text, split.test.entity.tolist(), strict=True)
    }
    train, everything = pairs_in(split.train), pairs_in(corpus)
    assert pairs_in(documents_of(split.test, kb)) == test
    assert test | train == everything
    assert not test & train
    assert all(document.mentions for document in split.train)
    unseen = {kb.entities[row].id for row in split.unseen.tolist()}
    frequency = Counter(e for _, e in everything)
    assert len(unseen) == round(0.1 * len(frequency))
    assert {e for _, e in train} == set(frequency) - unseen
    for e, n in frequency.items():
        n_test = sum(id_ == e for _, id_ in test)
        assert n_test == (n if e in unseen else max(0, min(n // 10, n - 5)))


def test_unseen_entities_come_from_all_frequencies_and_the_seed_decides() -> None:
    corpus, kb = corpus_of([[e] for e in range(30) for _ in range(30 - e)])
    frequent = Counter[int]()
    for seed in range(40):
        split = entity_split(corpus, kb, unseen=1 / 6, seed=seed)
        thirds = Counter(row // 10 for row in split.unseen.tolist())
        assert [thirds[third] for third in range(3)] == [1, 2, 2]
        frequent.update(split.unseen.tolist())
    assert set(frequent) == set(range(30))
    again, other = (entity_split(corpus, kb, unseen=1 / 6, seed=seed) for seed in (7, 8))
    split = entity_split(corpus, kb, unseen=1 / 6, seed=7)
    assert split.train == again.train
    assert split.test.text.tolist() == again.test.text.tolist() != other.test.text.tolist()
    with pytest.raises(ValueError, match="check that the ids and the domains match"):
        entity_split(corpus, KnowledgeBase([Entity("X", "x")]))


@pytest.fixture(scope="module")
def sample() -> tuple[EntitySplit, KnowledgeBase]:
    documents, kb = load_sample()
    return entity_split(pieces(documents, sentences).corpus, kb, unseen=0.5, test=0.5, least=1), kb


def test_extraction_by_brute_force(sample: tuple[EntitySplit, KnowledgeBase]) -> None:
    split, kb = sample
    test, seen = split.test, ~np.isin(split.test.entity, split.unseen)
    found = rule_based([document.text for document in test.corpus], kb, test.text, test.entity)
    scores = given_scores(test, found, seen)
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for i, row in enumerate(test.text.tolist()):
        units = content_words(test.corpus[row].text)

        def touched(spans: object, units: list[tuple[int, int]] = units) -> set[int]:
            return {u for u, (a, b) in enumerate(units) for c, d in spans if a < d and c < b}  # type: ignore[attr-defined]

        gold, predicted = touched([span for mention in test.mentions[i] for span in mention]), touched(found[i])
        kind = "disjoint" if any(len(mention) > 1 for mention in test.mentions[i]) else "contiguous"
        group = "seen" if seen[i] else "unseen"
        for at in ((kind, group), ("all", group), (kind, "all"), ("all", "all")):
            counts[at] = [a + b for a, b in zip(counts[at], map(len, (gold, predicted, gold & predicted)), strict=True)]
    assert counts["all", "seen"][2]
    assert counts["all", "unseen"][2]
    assert len(scores) == 9
    for at, scored in scores.items():
        assert list(scored.counts[:3]) == counts[at]
    with pytest.raises(ValueError, match="shorter"):
        given_scores(test, [], seen)


class ByTable:
    """Scores as a table says."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def score(self, texts: object, kb: object, text: np.ndarray, entity: np.ndarray, announce: object) -> np.ndarray:
        found: np.ndarray = self.table[text, entity].astype(np.float32)
        return found


@given(st.data())
def test_linked_entities_by_brute_force(data: st.DataObject) -> None:
    corpus, kb = corpus_of([[0, 3], [1], [], [2, 4, 5], [*range(6, 14)], [*range(12, 20)]])
    corpus = Corpus([*corpus[:3], with_gaps(corpus[3]), *corpus[4:]])
    domains = data.draw(st.lists(st.sampled_from("vw"), min_size=30, max_size=30))
    kb = KnowledgeBase(replace(entity, domain=own) for entity, own in zip(kb, domains, strict=True))
    corpus = Corpus(replace(text, domain=data.draw(st.sampled_from("vw"))) for text in corpus)
    gold = Pairs.of(corpus, kb)
    row = st.lists(st.integers(0, 3), min_size=30, max_size=30)
    scorer = ByTable(np.array(data.draw(st.lists(row, min_size=6, max_size=6))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("library.oslat.scores._PAIRS", data.draw(st.sampled_from([1, 40, 1 << 21])))
        scores = linked_scores(scorer, gold, kb, gold.entity < 2)
    universe = np.unique(gold.entity).tolist()
    hits: dict[tuple[tuple[str, str], int], list[bool]] = defaultdict(list)
    for text, entity, mentions in zip(gold.text.tolist(), gold.entity.tolist(), gold.mentions, strict=True):
        others = [other for other in universe if domains[other] == corpus[text].domain]
        best = sorted(others, key=lambda other, text=text: (-scorer.table[text, other], other))
        kind = "disjoint" if len(mentions[0]) > 1 else "contiguous"
        for group in ((a, b) for a in (kind, "all") for b in ("seen" if entity < 2 else "unseen", "all")):
            for k in (1, 5, 10):
                hits[group, k].append(entity in best[:k])
    assert {*scores} == {group for group, _ in hits}
    for (group, k), found in hits.items():
        assert scores[group][f"@{k}"] == pytest.approx(sum(found) / len(found))


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
