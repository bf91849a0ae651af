"""The n-gram encoder against the same in pure Python, bit by bit; names normalised in bulk; tables of strings."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from builders import document
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data import MentionInput
from arbo.encoders import ngrams
from arbo.encoders.ngrams import Frequencies
from arbo.encoders.string_table import Spans, words_of
from arbo.text.names import marked, normalize_name, signs_of

UNSEEN = 1 << 16


class Plain:
    """The encoder in pure Python: dicts of words and n-grams, and products of sparse matrices."""

    def __init__(self, one: arbo.NgramEncoder) -> None:
        self.one = one
        self.n_names, self.words, self.grams = 0, {}, {}
        self.word_count = self.gram_count = np.empty(0)

    def inverse(self, counts: Any) -> Any:
        return np.asarray(np.log((1 + self.n_names) / (1 + counts)) + 1)

    def fit(self, names: Sequence[str]) -> Plain:
        self.words = {word: i for i, word in enumerate(dict.fromkeys(chain(*map(plain_words, names))))}
        in_name = incidence([words_in(name) for name in dict.fromkeys(names)], self.words)
        in_word = self.weights(self.words, grow=True)
        counts = in_name @ sp.csr_array((np.ones(in_word.nnz), in_word.indices, in_word.indptr), in_word.shape)
        self.n_names = in_name.shape[0]
        self.word_count = np.bincount(in_name.indices, minlength=len(self.words)).astype(np.float64)
        self.gram_count = np.bincount(counts.indices, minlength=len(self.grams)).astype(np.float64)
        return self

    def encode(self, names: Sequence[str], is_alias: Any = None) -> sp.csr_array:
        words: dict[str, int] = {}
        in_name = incidence([words_in(name) for name in names], words)
        in_word = self.weights(words, grow=False)
        in_word = in_word @ sp.diags_array(self.inverse(np.pad(self.gram_count, (0, UNSEEN))))
        place = np.array([self.words.get(word, -1) for word in words], np.int64)
        count = np.where(place >= 0, self.word_count[place], 0) if len(self.word_count) else np.zeros(len(place))
        length = np.sqrt(in_word.power(2).sum(axis=1))
        scale = np.sqrt(self.inverse(count) / np.where(length > 0, length, 1))
        vectors = sp.csr_array(in_name @ (sp.diags_array(scale) @ in_word)).sorted_indices()
        rows = (vectors.data[begin:end] for begin, end in pairwise(vectors.indptr))
        length = np.array([np.sqrt(np.cumsum(np.append(0, row**2))[-1]) for row in rows])
        vectors = sp.diags_array(1 / np.where(length > 0, length, 1)) @ vectors
        alias = np.zeros(len(names)) if is_alias is None else self.one.alias_weight * is_alias
        return sp.csr_array(sp.hstack([vectors, sp.csr_array(alias[:, None])]), dtype=np.float32).sorted_indices()

    def weights(self, words: Iterable[str], *, grow: bool) -> sp.csr_array:
        indices, weights, indptr, grams = [], [], [0], self.grams
        weight = [max(self.one.floor, self.one.decay**place) for place in range(100)]
        for word in words:
            padded = f" {word} "
            for size in self.one.sizes:
                for place in range(max(1, len(padded) - size + 1)):
                    gram = padded[place : place + size]
                    dimension = grams.setdefault(gram, len(grams)) if grow else grams.get(gram, -1)
                    indices.append(dimension if dimension >= 0 else len(grams) + zlib.crc32(gram.encode()) % UNSEEN)
                    weights.append(weight[min(place, 99)])
            indptr.append(len(indices))
        shape = len(indptr) - 1, len(grams) + (0 if grow else UNSEEN)
        matrix = sp.csr_array((weights, indices, indptr), shape, dtype=np.float64)
        matrix.sum_duplicates()
        return matrix


def plain_words(name: str) -> list[str]:
    return list(dict.fromkeys(normalize_name(name).split()))


def words_in(name: str) -> list[str]:
    """Return the words of a name and, if it has signs, these marked by them."""
    words, signs = plain_words(name), signs_of(name)
    return [*words, *(form for word in words for form in marked(word, signs))] if signs else words


def incidence(rows: Iterable[Iterable[str]], column: dict[str, int]) -> sp.csr_array:
    indices, indptr = [], [0]
    for items in rows:
        indices.extend(column.setdefault(item, len(column)) for item in items)
        indptr.append(len(indices))
    return sp.csr_array((np.ones(len(indices)), indices, indptr), (len(indptr) - 1, len(column)))


def assert_same(one: sp.csr_array, other: sp.csr_array) -> None:
    assert one.shape == other.shape
    for part in ("indptr", "indices"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    np.testing.assert_array_equal(one.data.view(np.uint32), other.data.view(np.uint32))


def compare(encoder: arbo.NgramEncoder, fitted: Sequence[str], sought: Sequence[str]) -> None:
    """Assert that the encoder and the plain one have equal frequencies and equal vectors."""
    plain, own = Plain(encoder).fit(fitted), encoder.fit(fitted)
    known = own.frequencies
    assert known.n_names == plain.n_names
    assert [known.words.spans.strings(), known.grams.spans.strings()] == [[*plain.words], [*plain.grams]]
    np.testing.assert_array_equal(known.word_count, plain.word_count)
    np.testing.assert_array_equal(known.gram_count, plain.gram_count)
    mentions = [MentionInput(name, None, None) for name in sought]
    assert_same(own.encode_mentions(mentions).matrix, plain.encode(list(dict.fromkeys(sought))))
    aliases = np.arange(len(fitted)) % 2 == 1
    for encoded in (own, encoder.fit(fitted)):  # the second one remembers the words of the names
        entities = encoded.encode_entities(Kb(fitted))
        assert_same(entities.matrix, plain.encode(fitted, aliases))


class Kb:
    """A knowledge base with two names for each entity, perhaps equal or empty ones."""

    def __init__(self, names: Sequence[str]) -> None:
        self.own = names

    def names(self) -> tuple[Sequence[str], Any]:
        return self.own, np.arange(len(self.own)) // 2

    def __len__(self) -> int:
        return (len(self.own) + 1) // 2


WORDS = ("wilson", "disease", "a" * 26, "at" * 13, "a", "of", "Ωμέγα", "病気", "ﬁx", "ß")
NAMES = st.one_of(
    st.text(max_size=12),
    st.text("ab \u0301\u0338=\xb4\uff9e\u30cf'sS", max_size=12),
    st.text("ab's`_ -OU\x00\x1c\x85\n", max_size=12),
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
).filter(lambda name: not any("\ud800" <= c <= "\udfff" for c in name))

OTHER = {"sizes": (2, 5, 1), "decay": 0.5, "floor": 0.1, "alias_weight": 0.3}


@pytest.mark.parametrize("how", [{}, OTHER, {"decay": 0, "floor": 0}, {"alias_weight": 0}])
@given(fitted=st.lists(NAMES, max_size=8), sought=st.lists(NAMES, max_size=8))
@settings(max_examples=25, deadline=None)
def test_vectors_are_those_of_plain_python(how: dict[str, Any], fitted: list[str], sought: list[str]) -> None:
    compare(arbo.NgramEncoder(**how), fitted, sought + fitted[:2])


def test_chunks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "_CHUNK", 3)
    names = [f"{word}{i} {other}" for i, word in enumerate(WORDS) for other in WORDS]
    compare(arbo.NgramEncoder(), names, [*names[::-3], "", "unseen 病 words"])
    compare(arbo.NgramEncoder(), [], names)


@given(st.one_of(NAMES, st.text("aeiou'`S xh_-.rsuzy\t\x1f1", max_size=30)))
@settings(max_examples=600, deadline=None)
def test_words_are_those_of_the_normalised_name(name: str) -> None:
    names = ["a b", name, "c", f"{name} c"]
    words, (start, items) = words_of(Spans.of(names))
    found = [words.spans.strings()[item] for item in items]
    expected = [words_in(one) for one in names]
    assert [found[begin:end] for begin, end in pairwise(start.tolist())] == expected
    assert words.spans.strings() == list(dict.fromkeys(chain(*map(plain_words, names), *expected)))


HARD = "+++|'s|'S `s|___|x's_y|a's's b|\x00\x1c\n|''s's|a'|a's|a'sb|O'S-1|| |our hour flavour's oeur aoe aaee caeoe"
HARD += "|dies ties bodies kisses dishes witches boxes gas bus basis glass|Wilson's Tumours, Haemorrhagic (Type-2)"


@pytest.mark.parametrize("name", HARD.split("|"))
def test_hard_names(name: str) -> None:
    test_words_are_those_of_the_normalised_name.hypothesis.inner_test(name)


def test_frequencies_are_opened_from_files(tmp_path: Path) -> None:
    """Arrays on disk are neither copied nor written to."""
    fitted = arbo.NgramEncoder().fit(["Wilson disease", "Ωμέγα fever", "fever"])
    for name, array in fitted.frequencies.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    opened = {file.stem: np.load(file, mmap_mode="r") for file in tmp_path.iterdir()}
    again = Frequencies.from_arrays(opened)
    assert np.shares_memory(again.words.slots, opened["words_slots"])
    names = Spans.of(["fever", "Ωμέγα", "unseen Wilson", ""])
    other = arbo.NgramEncoder(frequencies=again)
    assert_same(fitted._encode(names), other._encode(names))


@pytest.mark.parametrize("name", ["words_text", "words_start", "grams_slots", "gram_count", "word_count"])
def test_damaged_frequencies_are_refused(name: str) -> None:
    """A kernel that followed them would read out of bounds."""
    fitted = arbo.NgramEncoder().fit(["Wilson disease", "fever"])
    arrays = fitted.frequencies.arrays()
    with pytest.raises(arbo.DataError, match="damaged"):
        Frequencies.from_arrays({**arrays, name: arrays[name][: len(arrays[name]) // 4]})


def test_a_shared_name_goes_to_who_prefers_it_and_lists_lose_common_n_grams() -> None:
    for order in (1, -1):
        entities = [arbo.Entity("E1", "fever"), arbo.Entity("E2", "hot skin", aliases=("fever",))][::order]
        link = arbo.Linker(arbo.KnowledgeBase(entities)).link([document("d", "fever")]).links[0]
        assert link.entity == "E1"
        assert 0 < link.margin < 0.01
    with pytest.raises(RuntimeError, match="fit"):
        arbo.NgramEncoder().encode_entities(arbo.KnowledgeBase())
    names = ["bank", "banker", "bank of Lund", "Lund"]
    every, rare = (arbo.NgramEncoder(most_names=most).fit(names)._encode(Spans.of(names)) for most in (None, 1))
    assert np.diff(every.indptr).tolist() == [7, 11, 17, 7]
    assert np.diff(rare.indptr).tolist() == [2, 6, 12, 7]  # "bank" keeps "nk" and "ank" with a blank
    assert np.allclose(rare.power(2).sum(axis=1), 1)


@pytest.mark.parametrize("within", [0.0, 0.2, 0.6, 0.99, 1.0])
def test_no_name_that_is_near_is_missed(within: float) -> None:
    _, kb = arbo.load_sample()
    own, rng = arbo.NgramEncoder().fit(kb.names().names), np.random.default_rng(0)
    some = [*kb.names().names[:300], "", "+++", "Wilson's Wilson disease"]
    words = sorted({word for name in some for word in name.split()})
    names = some + [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(300)]
    matrix = own._encode(Spans.of(names))
    near = 1 - (matrix @ matrix.T).toarray() <= within
    sought = rng.permutation(len(names))[:60]
    for rows in (sought, sought[:1]):
        found = own.near(names, np.sort(rows), within)
        assert {*np.flatnonzero(near[rows].any(axis=0)), *rows} <= {*found}
    if within <= 0.2:
        assert len(own.near(names, sought, within)) < near[sought].any(axis=0).sum() + len(names) / 3
    assert own.near(names, sought[:0], within).tolist() == []


def test_a_run_that_grows_encodes_only_names_that_may_be_near(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, _ = arbo.load_sample()
    before = arbo.Linker().discover(documents[:90])
    encoded, encode = list[str](), arbo.NgramEncoder._encode
    monkeypatch.setattr(
        arbo.NgramEncoder,
        "_encode",
        lambda own, names, *rest: encoded.extend(names.strings()) or encode(own, names, *rest),
    )
    arbo.Linker().add(before, [document("new", "Wilson disease")])
    assert "Wilson disease" in encoded
    assert len({*encoded}) < len({link.name for link in before.links}) / 4
