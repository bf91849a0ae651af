"""Words, sentences and the dictionary: hostile text, and every match by brute force."""

import re
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import arbo
from arbo import Corpus, Document, Entity, KnowledgeBase
from arbo.encoders.word_index import WordIndex
from arbo.spans.dictionary import Dictionary
from arbo.spans.finding import DictionaryFinder, Proposal, without_overlaps
from arbo.text.names import normalize_name
from arbo.text.words import content_words, fold, passages, sentences, words


def cut(text: str, spans: object) -> list[str]:
    return [text[begin:end] for begin, end in spans]


@pytest.mark.parametrize(
    ("divide", "text", "found"),
    [
        (words, "", []),
        (words, " \r\n\t", []),
        (words, "\U0001f600 ++ \u2764\ufe0f", []),
        (words, "\U0001f600fièvre-aiguë\U0001f600", ["fièvre", "aiguë"]),
        (words, unicodedata.normalize("NFD", "fièvre aiguë"), ["fie\u0300vre", "aigue\u0308"]),
        (words, "हिन्दी 日本語", ["हिन्दी", "日本語"]),
        (words, "IL-2R\r\nα_1", ["IL", "2R", "α_1"]),
        (words, "Crohn\u02bcs e\u0301", ["Crohn", "s", "e\u0301"]),
        (content_words, "Crohn\u2019s disease", ["Crohn", "disease"]),
        (content_words, "L'insuffisance d'un rein, jusqu'à l\u2019âge", ["insuffisance", "rein", "âge"]),
        (content_words, "hepatitis A and a vitamin d or C loss", ["hepatitis", "A", "vitamin", "d", "C", "loss"]),
        (content_words, "no pain without s", ["no", "pain", "without", "s"]),  # negations tell names apart
        (content_words, "The 5'-d end", ["5", "d", "end"]),
        (content_words, "of the sans Y", ["sans", "Y"]),
        (content_words, "CANCER OF THE COLON A", ["CANCER", "COLON", "A"]),
        (content_words, "CANCER OF ALL-TYPES, THE", ["CANCER", "ALL", "TYPES"]),
        *((content_words, name, re.split("[- ]", name)) for name in ("IL-10", "AND-34", "HER 2", "T-ALL", "B ALL T 1")),
        (content_words, "Crohn\u02bcs l\u02bciléite", ["Crohn", "iléite"]),
        (content_words, unicodedata.normalize("NFD", "à même l'entité's côté"), ["entite\u0301", "co\u0302te\u0301"]),
        (content_words, "WAS was in ALL", ["WAS", "ALL"]),
        (sentences, "", []),
        (sentences, "A. B? (C!) 2 d. e", ["A. B?", "(C!)", "2 d. e"]),
        (
            sentences,
            "Dr. X et al. Found it, e.g. Y: 9!\nThen (see Fig. 3) \u201cso.\u201d Yes",
            ["Dr. X et al. Found it, e.g. Y: 9!", "Then (see Fig. 3) \u201cso.\u201d", "Yes"],
        ),
        (sentences, "Title\r\n\r\nwrapped\r\nline. \u00c9t\u00e9", ["Title", "wrapped\r\nline.", "Été"]),
        (sentences, "v1.2 and pH 7.4... ok", ["v1.2 and pH 7.4... ok"]),
    ],
)
def test_words_and_sentences_of_hostile_text(divide: Any, text: str, found: list[str]) -> None:
    assert cut(text, divide(text)) == found
    assert words(text).shape == (len(words(text)), 2)


@given(st.text(alphabet="ab'’ é\u0301.-_\n", max_size=30))
def test_words_are_the_maximal_runs_of_word_characters(text: str) -> None:
    assert cut(text, words(text)) == re.findall(r"\w[\w\u0301]*", text)


@pytest.mark.parametrize("split", [sentences, passages])
@given(text=st.text(alphabet="aB. \n\r!)1", max_size=40))
def test_pieces_lose_nothing_but_white_space(split: object, text: str) -> None:
    spans = split(text).tolist()
    assert "".join("".join(cut(text, spans)).split()) == "".join(text.split())
    assert all(piece.strip() == piece != "" for piece in cut(text, spans))
    assert [place for span in spans for place in span] == sorted(place for span in spans for place in span)


def test_a_sentence_without_end_is_cut_between_words() -> None:
    text = "Short. (" + "A-b, " * 1000 + ")"
    found = cut(text, passages(text))
    assert [len(words(piece)) for piece in found] == [1, 500, 500, 500, 500]
    assert "".join("".join(found).split()) == "".join(text.split())


def test_time_stays_linear_in_hostile_text() -> None:
    for text in ("\n" * 10**5, "." * 10**5, ". " * 10**5, "(" * 10**5, " " * 10**5 + "x", "a\n " * 10**5):
        sentences(text)
    kb = KnowledgeBase([Entity("E", " ".join("b" * 3 for _ in range(1000)))])
    assert Dictionary().add(kb).matches("bbb " * 999 + "c " * 10**5) == []


vocabulary = st.sampled_from(["a", "b", "C", "the", "of", "É", "e\u0301", "AB", "ab", "é", "1"])
names = st.lists(st.tuples(vocabulary, st.sampled_from([" ", " ", ", ", " ("])), min_size=1, max_size=3).map(
    lambda parts: "".join(word + gap for word, gap in parts).rstrip(" ,(")
)
texts = st.lists(
    st.tuples(vocabulary, st.sampled_from([" ", " ", "-", ", ", ",", " (", ". ", "\n", "\n\n", "'"])), max_size=12
).map(lambda parts: "".join(word + gap for word, gap in parts))


def key(text: str) -> list[str]:
    return [fold(text[begin:end]) for begin, end in content_words(text)]


def gaps(text: str) -> list[list[str]]:
    """Return what counts between the words of a text, `of` for any words like it."""
    spans = content_words(text)
    between = [text[end:begin] for (_, end), (begin, _) in pairwise(spans)]
    parts = [re.findall(r"[,(\n]|of", gap, re.I) if re.search(r"\s|...", gap) else [] for gap in between]
    return [
        ["of"] if gap and {part.lower() for part in gap} == {"of"} else [part.lower() for part in gap] for gap in parts
    ]


def fits(text: str, name: str, own: list[list[str]]) -> bool:
    """Tell whether nothing stands between the words of a text, or what stands in the name."""
    between, path = gaps(text), key(name)
    turned = [path[at:] + path[:at] in own for at in range(1, len(path))]
    allowed = [
        ([["of"]] if is_turned else [[","], ["of"]]) if gap == [","] else [gap]
        for gap, is_turned in zip(gaps(name), turned, strict=True)
    ]
    return not any(between) or all(gap in some for gap, some in zip(between, allowed, strict=True))


@given(st.lists(st.lists(names, min_size=1, max_size=3), min_size=1, max_size=4), texts)
def test_the_dictionary_finds_what_brute_force_finds(owned: list[list[str]], text: str) -> None:
    kb = KnowledgeBase(Entity(f"E{row}", own[0], tuple(own[1:])) for row, own in enumerate(owned))
    spans, ends = content_words(text), sentences(text)[:, 1]
    expected = set()
    for i, (begin, _) in enumerate(spans):
        for j in range(i, len(spans)):
            end = spans[j][1]
            if (ends <= begin).sum() != (ends < end).sum():
                continue
            for row, own in enumerate(owned):
                for place, name in enumerate(own):
                    words_of_name = key(name)
                    only = surface[0] if len(surface := cut(name, content_words(name))) == 1 else "several"
                    never = len(only) == 1 or (only.isupper() and not text[begin:end].isupper())
                    is_number = place and "".join(words_of_name).isdigit()
                    same = words_of_name == [fold(text[a:b]) for a, b in spans[i : j + 1]] != []
                    if same and not (never or is_number) and fits(text[begin:end], name, list(map(key, own))):
                        expected.add((begin, end, j + 1 - i, row))
    found = Dictionary().add(kb).matches(text)
    assert {(*match[:3], row) for match in found for row in match.entities} == expected
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cancer of the breast, cancer in a breast", ["cancer of the breast", "cancer in a breast"]),
        ("cancer and breast, cancer, breast", ["cancer", "cancer"]),  # of an entity that is also called breast cancer
        ("type 1 (GM2) gangliosidosis; GM2 gangliosidosis, type 1", ["GM2 gangliosidosis, type 1"]),
        ("(CML)--kidney failure, (kidney)--failure", ["kidney failure", "failure"]),
        ("liver failure, kidney\nfailure", ["liver failure", "failure"]),
        ("head and neck tumour, head, neck tumour", ["head and neck tumour"]),
        ("1,2-dichlorethane or 1, 2 dichlorethane", ["1,2-dichlorethane"]),
        ("a line of more than forty characters, kidney\nfailure", ["kidney\nfailure"]),  # wrapped
        ("a line of more than forty characters, kidney\nFailure", ["Failure"]),
    ],
)
def test_names_do_not_run_over_what_they_have_not(text: str, found: list[str]) -> None:
    names = "Breast cancer|Cancer, Breast|cancer; GM2 Gangliosidosis, Type 1; failure|liver failure|kidney failure; "
    names += "tumour of head and neck|head and neck tumour; 1,2-dichlorethane"
    lists = [of.split("|") for of in names.split("; ")]
    kb = KnowledgeBase(Entity(f"D{row}", own[0], tuple(own[1:])) for row, own in enumerate(lists))
    matches = Dictionary().add(kb).matches(text)
    longest = without_overlaps(Proposal(0, ((match.begin, match.end),), 0, 1.0) for match in matches)
    assert cut(text, [proposal.spans[0] for proposal in longest]) == found


@pytest.mark.parametrize(
    ("names", "text", "found"),
    [
        (
            "leukemia|ALL|1 CATARACT As",
            "All cataracts and 1 ALL, all CATARACT; cataract as AS.",
            "ALL CATARACT cataract",
        ),
        ("IL-10|10 AND-34 HER-2|2", "All 10 had IL-10 and AND-34, 34 HER-2.", "IL-10 AND-34 HER-2"),
        ("T-ALL|ALL 1984", "All of T-ALL, ALL in 1984.", "T-ALL ALL ALL 1984"),
        ("cell|APC toxin|ATs|As", "APCs, apcs, AT and ATs at APC; ats", "APCs AT ATs APC"),
    ],
)
def test_names_in_capitals_are_sought_in_capitals(names: str, text: str, found: str) -> None:
    lists = [own.split("|") for own in names.split()]
    kb = KnowledgeBase(Entity(f"D{row}", name, tuple(aliases)) for row, (name, *aliases) in enumerate(lists))
    assert cut(text, [match[:2] for match in Dictionary().add(kb).matches(text)]) == found.split()


spans = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=2).map(
        lambda own: tuple((begin, begin + length) for begin, length in own)
    ),
    max_size=8,
)


@given(spans, st.data())
def test_overlaps_are_resolved_greedily(spans: list[tuple[tuple[int, int], ...]], data: st.DataObject) -> None:
    score = data.draw(st.lists(st.integers(0, 2), min_size=len(spans), max_size=len(spans)))
    taken: set[int] = set()
    expected = []
    for place in sorted(range(len(spans)), key=lambda i: (-score[i], -sum(e - b for b, e in spans[i]), spans[i])):
        own = {character for begin, end in spans[place] for character in range(begin, end)}
        if not own & taken:
            expected.append(place)
            taken |= own
    best = sorted(Proposal(document, spans[place], place, score[place]) for document in (0, 2) for place in expected)
    every = [
        Proposal(document, spans[place], place, score[place]) for document in (0, 2) for place in range(len(spans))
    ]
    assert without_overlaps(data.draw(st.permutations(every))) == best


ODD = (
    "Tylenol\u2122, Crohn\u02bcs disease, Crohn's disease, The Down syndrome, Down syndrome, of May, The May, ALL, AS, "
    "a, APC, APCs, CATS, CATSs, CATs, cat, 5\u2103 x, a_b, a_b the, \u00bd, \u00bd The, 34, 1-2-dichloroethane, __, "
    "l'il\u00e9ite, ile\u0301ite, cancer of the breast, breast cancer, \u809d\u764c, tumours, tumor, DOE, does it, "
    "\u0149foo, WHO, The Who, fever may syndrome, fever, syndrome, SSs, SS, haemo, hemo, \u2460 type, it's, "
    "\uff23\uff21\uff34, stra\u00dfe, STRASSE"
)
PART = st.sampled_from([*ODD.split(", "), *ODD.replace(",", "").split()])
NAMES = st.lists(st.lists(PART, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(entities=st.lists(NAMES, max_size=6), texts=st.lists(st.lists(PART, max_size=6).map(" ".join), max_size=4))
def test_the_matches_are_those_of_all_names(entities: list[list[str]], texts: list[str]) -> None:
    kb = KnowledgeBase(Entity(f"D{i}", names[0], tuple(names[1:])) for i, names in enumerate(entities))
    finder, whole = DictionaryFinder(abbreviations=False), Dictionary(normalize_name).add(kb)
    for text in texts:
        proposed = finder.propose(Corpus([Document("d", text)]), kb)
        expected = [((m.begin, m.end), row) for m in whole.matches(text) for row in m.entities]
        assert [(p.spans[0], p.entity) for p in proposed] == expected


def test_an_index_holds_the_words_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase([Entity("D1", "liver fever", ("\u809d\u764c",)), Entity("D2", "fever")])
    stored = arbo.build_index(kb, tmp_path / "index")
    parts = [WordIndex.of(kb).arrays(), stored.stored.arrays("words") if stored.stored else {}]
    assert all(np.array_equal(parts[0][name], parts[1][name]) for name in {**parts[0], **parts[1]})
    monkeypatch.setattr(WordIndex, "of", None)
    found = arbo.find_mentions(arbo.DictionaryFinder(), [Document("d", "fever of the liver fever")], stored)
    assert [mention.text for mention in found.mentions] == ["fever", "liver fever"]
