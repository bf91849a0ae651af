"""The n-gram encoder: unit vectors, frequencies from the knowledge base alone, nothing by chance."""

import numpy as np
import pytest
from builders import document, kb_of

import arbo
from arbo.data import MentionInput
from arbo.encoders.string_table import Spans

KB = kb_of(
    arbo.Entity("E1", "fever", aliases=("pyrexia",)),
    arbo.Entity("E2", "Wilson disease", aliases=("hepatolenticular degeneration", "fever of Wilson")),
    arbo.Entity("E3", "kelp blight"),
)


def encoder(kb: arbo.KnowledgeBase = KB) -> arbo.NgramEncoder:
    return arbo.NgramEncoder().fit(kb.names().names)


def vectors(names: list[str], *, kb: arbo.KnowledgeBase = KB) -> np.ndarray:
    """Dense vectors of mentions with these names."""
    inputs = []
    for i, name in enumerate(names):
        text = name or "?"
        mention = arbo.Mention(f"m{i}", "d", ((0, len(text)),), text)
        inputs.append(MentionInput(name, mention, arbo.Document("d", text, ())))
    encoded = encoder(kb).encode_mentions(inputs)
    return encoded.matrix.toarray()[encoded.row].astype(np.float64)


def entity_vectors(kb: arbo.KnowledgeBase = KB) -> tuple[np.ndarray, np.ndarray]:
    encoded = encoder(kb).encode_entities(kb)
    return encoded.matrix.toarray()[encoded.row].astype(np.float64), encoded.owner


def similarity(one: str, other: str, *, kb: arbo.KnowledgeBase = KB) -> float:
    a, b = vectors([one, other], kb=kb)
    return float(a @ b)


def test_mentions_have_unit_length() -> None:
    lengths = np.linalg.norm(vectors(["fever", "Wilson disease", "a b c d", "unheard of", "Ωμέγα"]), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_preferred_names_have_unit_length_and_aliases_a_little_more() -> None:
    matrix, owner = entity_vectors()
    squares = (matrix**2).sum(axis=1)
    weight = arbo.NgramEncoder().alias_weight
    assert owner.tolist() == [0, 0, 1, 1, 1, 2]
    np.testing.assert_allclose(squares, 1 + weight**2 * np.array([0, 1, 0, 1, 1, 0]), atol=1e-6)


def test_a_shared_name_goes_to_the_entity_that_prefers_it() -> None:
    for order in (1, -1):
        entities = [arbo.Entity("E1", "fever"), arbo.Entity("E2", "hot skin", aliases=("fever",))][::order]
        link = arbo.Linker(arbo.KnowledgeBase(entities)).link([document("d", "fever")]).links[0]
        assert link.entity == "E1"
        assert 0 < link.margin < 0.01


def test_frequencies_come_from_the_knowledge_base_alone() -> None:
    fitted = encoder().frequencies
    assert fitted.n_names == 6
    words, grams = fitted.words.spans.strings(), fitted.grams.spans.strings()
    assert fitted.word_count[words.index("fever")] == 2
    assert [fitted.gram_count[grams.index(gram)] for gram in (" fe", "kel")] == [2, 1]
    alone = vectors(["Wilson fever"])
    among_others = vectors(["Wilson fever", "fever", "feverfew", "Wilson", "Wilsonia"])[:1]
    np.testing.assert_array_equal(alone, among_others)


def test_a_rare_word_tells_more_than_a_common_one() -> None:
    names = [arbo.Entity(f"E{i}", f"{word} disease") for i, word in enumerate(["kelp", "root", "wing", "gill"])]
    kb = arbo.KnowledgeBase(names)
    assert similarity("kelp disease", "kelp", kb=kb) > similarity("kelp disease", "disease", kb=kb)


def test_the_start_of_a_word_tells_more_than_its_end() -> None:
    assert similarity("ferritin", "ferrizzz") > similarity("ferritin", "zzzritin")


def test_names_in_an_unknown_script_can_be_alike_and_differ() -> None:
    assert similarity("Ωμέγα", "ωμέγα") == pytest.approx(1)
    assert similarity("Ωμέγα", "Αλφάβητο") < 0.5
    assert similarity("病気", "天気") < 0.9


@pytest.mark.parametrize("name", ["", " ", "\u0301"])
def test_a_name_that_shows_nothing_is_a_zero_vector(name: str) -> None:
    assert not vectors([name]).any()


def test_words_of_a_list_lose_common_n_grams_unless_they_have_no_others() -> None:
    names = ["bank", "banker", "bank of Lund", "Lund"]
    every, rare = (arbo.NgramEncoder(most_names=most).fit(names)._encode(Spans.of(names)) for most in (None, 1))
    assert np.diff(every.indptr).tolist() == [7, 11, 17, 7]
    assert np.diff(rare.indptr).tolist() == [2, 6, 12, 7]  # "bank" keeps "nk" and "ank" with a blank
    assert np.allclose(rare.power(2).sum(axis=1), 1)


def test_an_encoder_that_was_not_fitted_says_so() -> None:
    with pytest.raises(RuntimeError, match="fit"):
        arbo.NgramEncoder().encode_entities(KB)


@pytest.mark.parametrize("within", [0.0, 0.2, 0.6, 0.99, 1.0])
def test_no_name_that_is_near_is_missed(within: float) -> None:
    _, kb = arbo.load_sample()
    own, rng = encoder(kb), np.random.default_rng(0)
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
