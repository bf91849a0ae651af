"""Mentions found in unmarked documents: words, sentences and the dictionary, finders, scores, and the command line."""

import gzip
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from builders import kb_of, linking, sample_files
from conftest import Run
from hypothesis import given, settings, strategies as st

import arbo
from arbo import Corpus, DataError, Document, Entity, KnowledgeBase, Mention, find_mentions
from arbo.encoders.word_index import WordIndex
from arbo.formats import read_documents
from arbo.spans import finding
from arbo.spans.dictionary import Dictionary
from arbo.spans.evaluation import found_scores, run_scores
from arbo.spans.finding import LEFT_OUT, DictionaryFinder, Proposal, find, without_overlaps
from arbo.text.names import normalize_name
from arbo.text.words import content_words, fold, passages, sentences, words

SAMPLE, BASE = arbo.load_sample()


def cut(text: str, spans: object) -> list[str]:
    return [text[begin:end] for begin, end in spans]


def test_words_and_sentences_of_hostile_text() -> None:
    for divide, text, found in (
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
        (sentences, "Dr. X et al. Found it, e.g. Y: 9!\nThen", ["Dr. X et al. Found it, e.g. Y: 9!", "Then"]),
        (sentences, "Then (see Fig. 3) \u201cso.\u201d Yes", ["Then (see Fig. 3) \u201cso.\u201d", "Yes"]),
        (sentences, "Title\r\n\r\nwrapped\r\nline. \u00c9t\u00e9", ["Title", "wrapped\r\nline.", "Été"]),
        (sentences, "v1.2 and pH 7.4... ok", ["v1.2 and pH 7.4... ok"]),
    ):
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
    between = [text[end:begin] for (_, end), (begin, _) in pairwise(content_words(text))]
    parts = [re.findall(r"[,(\n]|of", gap.lower()) if re.search(r"\s|...", gap) else [] for gap in between]
    return [["of"] if {*gap} == {"of"} else gap for gap in parts]


def fits(text: str, name: str, own: list[list[str]]) -> bool:
    """Tell whether nothing stands between the words of a text, or what stands in the name."""
    between, path = gaps(text), key(name)
    pairs = zip(gaps(name), [path[at:] + path[:at] in own for at in range(1, len(path))], strict=True)
    allowed = [([["of"]] if other else [[","], ["of"]]) if gap == [","] else [gap] for gap, other in pairs]
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
    assert ({(*match[:3], row) for match in found for row in match.entities}, found) == (expected, sorted(found))


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


def test_names_in_capitals_are_sought_in_capitals() -> None:
    for names, text, found in (
        ("gout|ALL|1 CATARACT As", "All cataracts and 1 ALL, all CATARACT; cataract as AS.", "ALL CATARACT cataract"),
        ("IL-10|10 AND-34 HER-2|2", "All 10 had IL-10 and AND-34, 34 HER-2.", "IL-10 AND-34 HER-2"),
        ("T-ALL|ALL 1984", "All of T-ALL, ALL in 1984.", "T-ALL ALL ALL 1984"),
        ("cell|APC toxin|ATs|As", "APCs, apcs, AT and ATs at APC; ats", "APCs AT ATs APC"),
    ):
        lists = [own.split("|") for own in names.split()]
        kb = KnowledgeBase(Entity(f"D{row}", name, tuple(aliases)) for row, (name, *aliases) in enumerate(lists))
        assert cut(text, [match[:2] for match in Dictionary().add(kb).matches(text)]) == found.split()


piece = st.tuples(st.integers(0, 9), st.integers(1, 4)).map(lambda own: (own[0], sum(own)))


@given(st.lists(st.lists(piece, min_size=1, max_size=2).map(tuple), max_size=8), st.data())
def test_overlaps_are_resolved_greedily(spans: list[tuple[tuple[int, int], ...]], data: st.DataObject) -> None:
    score = data.draw(st.lists(st.integers(0, 2), min_size=len(spans), max_size=len(spans)))
    taken: set[int] = set()
    expected = []
    for place in sorted(range(len(spans)), key=lambda i: (-score[i], -sum(e - b for b, e in spans[i]), spans[i])):
        own = {character for begin, end in spans[place] for character in range(begin, end)}
        if not own & taken:
            expected.append(place)
            taken |= own
    every = [Proposal(document, own, place, score[place]) for document in (0, 2) for place, own in enumerate(spans)]
    best = sorted(one for one in every if one.entity in expected)
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


KB = kb_of(
    Entity("D1", "Wilson disease", ("hepatolenticular degeneration",), types=("Disease",)),
    Entity("D2", "disease", types=("Disease", "Root")),
    Entity("D3", "copper", domain="chemistry"),
    Entity("D4", "knee swelling"),
    Entity("D5", "Wilsons diseases"),
)


def document(text: str, name: str = "d", domain: str | None = None) -> Document:
    return Document(name, text, domain=domain)


def found(text: str, finder: DictionaryFinder | None = None) -> list[tuple[str, str]]:
    result = find(finder or DictionaryFinder(), [document(text)], KB)
    return [(m.text, KB.entities[p.entity].id) for m, p in zip(result.corpus.mentions, result.proposals, strict=True)]


def test_the_dictionary_finder() -> None:
    # Of entities that share a name the first in the knowledge base.
    first = [("Wilson's diseases", "D1"), ("WD", "D1"), ("WD", "D1"), ("disease", "D2")]
    assert found("Wilson's diseases (WD). A WD patient has the disease; copper") == first
    short = [("RHD", "D1"), ("RHD", "D1"), ("RHDs", "D1")]
    assert found("rare hepatolenticular degeneration (RHD); RHD, RHDs")[1:] == short
    assert found("Wilson (WIL) disease, Wilson (or) disease") == [("Wilson (WIL) disease", "D1"), ("disease", "D2")]
    assert found("WD (Wilson disease)", DictionaryFinder(abbreviations=False)) == [("Wilson disease", "D1")]
    for hostile in ("", " \r\n", "of the", "\U0001f600" * 9, "disease-" * 3 + "\N{COMBINING ACUTE ACCENT}", "(" * 999):
        assert {entity for _, entity in found(hostile)} <= {"D2"}


def texts_of(text: str, kb: KnowledgeBase, finder: DictionaryFinder | None = None) -> list[str]:
    return [mention.text for mention in find_mentions(finder or DictionaryFinder(), [document(text)], kb).mentions]


def test_an_abbreviation_means_what_the_text_defines() -> None:
    kb = kb_of(Entity("D1", "Sacral bone", ("SAC", "SB")), Entity("D2", "von Hippel-Lindau disease", ("VHL",)))
    for text, expected in (
        ("SAC", ["SAC"]),
        ("SB", []),
        ("SB, sacral bone", ["SB", "sacral bone"]),
        ("the spindle assembly checkpoint (SAC), SAC and SACs", []),
        ("sacral anterior bone (SAC), SAC", ["SAC", "SAC"]),
        ("von Hippel-Lindau (VHL) disease; VHL", ["von Hippel-Lindau (VHL) disease", "VHL"]),
    ):
        assert texts_of(text, kb) == expected
    assert texts_of("spindle assembly (SA) of SAC", kb, DictionaryFinder(abbreviations=False)) == ["SAC"]


def test_a_stop_word_that_makes_a_name_counts_in_capitals() -> None:
    kb = KnowledgeBase([Entity("D1", "Down syndrome", ("Syndrome, Down",)), Entity("D2", "flu")])
    text = "Down syndrome, a syndrome; Down's syndrome; the syndrome went down, syndrome after flu."
    assert texts_of(text, kb) == ["Down syndrome", "Down's syndrome", "flu"]


def test_the_index_is_kept_for_the_same_knowledge_base(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[KnowledgeBase] = []
    make = finding.word_index
    monkeypatch.setattr(finding, "word_index", lambda kb: (made.append(kb), make(kb))[1])
    finder, other = DictionaryFinder(), KnowledgeBase([Entity("D9", "copper")])
    for kb in (KB, KB, other, other, KB):
        assert texts_of("copper disease", kb, finder) == (["copper"] if kb is other else ["disease"])
    assert ([id(kb) for kb in made], finder) == ([id(KB), id(other), id(KB)], DictionaryFinder())
    assert finder.__hash__() == DictionaryFinder().__hash__()


def test_found_mentions_are_mentions_of_their_documents() -> None:
    old = Mention("m", "d", ((0, 6),), "Wilson", gold=("D2",))
    given = Corpus([Document("d", "Wilson disease, disease", (old,)), document("copper", "c", "chemistry")], {"odd": 1})
    result = find_mentions(DictionaryFinder(), given, KB)
    made = [("d:0-14", "Wilson disease", "Disease"), ("d:16-23", "disease", None), ("c:0-6", "copper", None)]
    assert [(m.id, m.text, m.type, m.gold) for m in result.mentions] == [(*one, None) for one in made]
    assert (result.notes, [d.text for d in result]) == ({"odd": 1, LEFT_OUT: 1}, [d.text for d in given])
    assert find_mentions(DictionaryFinder(), [], KB).mentions == ()
    assert len(arbo.Linker(KB).link(result[:1]).links) == 2


class Proposes:
    def __init__(self, *proposals: Proposal) -> None:
        self.proposals = proposals

    def propose(self, documents: object, kb: object, announce: object = None) -> Iterable[Proposal]:
        return self.proposals


def test_of_overlapping_proposals_the_best_stays_in_whatever_order() -> None:
    proposals = [
        Proposal(0, ((0, 4), (9, 12)), 0, 0.5),
        Proposal(0, ((3, 9),), 1, 0.4),
        Proposal(0, ((5, 8),), 3, 0.3),
        Proposal(0, ((5, 8),), 1, 0.3),
        Proposal(0, ((0, 12),), 2, 9.0),  # of another domain
        Proposal(1, ((0, 2),), 0, 0.1),
    ]
    for some in (proposals, proposals[::-1]):
        result = find(Proposes(*some), [document("x" * 12), document("y" * 3, "e")], KB)
        assert result.proposals == (proposals[0], proposals[3], proposals[5])


def test_scores_end_to_end_by_hand() -> None:
    text = "a b c d e f"

    def marked(*given: tuple[tuple[int, int], tuple[str, ...] | None]) -> Corpus:
        made = [Mention(f"m{i}", "d", (at,), text[slice(*at)], gold=gold) for i, (at, gold) in enumerate(given)]
        return Corpus([Document("d", text, tuple(made))])

    gold = marked(((0, 3), ("D1", "D2")), ((4, 5), ("D2",)), ((6, 7), ("X",)), ((8, 9), ()))
    result = marked(((0, 3), None), ((4, 7), None), ((8, 9), None), ((10, 11), None))
    scores = found_scores(gold, result, KB, ["D2", "D2", None, "D4"])
    assert (scores.mentions.counts[3:], scores.links.counts[3:]) == ((4, 4, 2, 4, 3), (2, 3, 1, 2, 2))
    assert scores.links.exact.f1 == pytest.approx(0.4)
    assert re.search(r"found and linked, exact +0.5000 +0.3333 +0.4000  3 linked, 2 annotated in the KB", str(scores))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = sample_files(tmp_path_factory.mktemp("found"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a b.txt").write_bytes("\ufeffThe RV Petrel\r\nmet a dusk\x1b[31m petrel.".encode())
    (tmp_path / "notes" / "é.TXT.gz").write_bytes(gzip.compress(b"Brown blade disease (BBD); BBD"))
    (tmp_path / "notes" / "empty.txt").write_bytes(b"")
    return tmp_path


def test_text_files(folder: Path) -> None:
    corpus = read_documents(folder / "notes", "text")
    assert [(d.id, d.text[:14]) for d in corpus] == [("a b", "The RV Petrel\r"), ("empty", ""), ("é", "Brown blade di")]


def test_from_texts_to_links(run: Run, folder: Path) -> None:
    kb = ["--kb", folder / "kb.jsonl", "--kb-format", "jsonl"]
    notes = [folder / "notes", "--format", "text", *kb]
    shown = run("find", *notes, "--out", folder / "a b" / "found.jsonl").ok()
    assert f"next: arbo link '{folder}/a b/found.jsonl' --kb {folder}/kb.jsonl" in shown.out
    assert "5 mentions of 3 entities found in 3 documents" in shown.out
    assert "[RV Petrel]" in shown.out
    assert "\\x1b[31m" in shown.out
    at_once = run("link", *notes, "--find-mentions", "dictionary", "--out", folder / "once", "--json")
    apart = run("link", folder / "a b" / "found.jsonl", "--format", "jsonl", *kb, "--out", folder / "apart", "--json")
    assert at_once.json["linked"] == apart.json["linked"] == 5
    once, apart = arbo.Result.load(folder / "once"), arbo.Result.load(folder / "apart")
    assert (once.link_table, once.mention_table) == (apart.link_table, apart.mention_table)


def test_scores_of_found_mentions_are_kept(run: Run, tmp_path: Path) -> None:
    proposals = (Proposal(0, ((0, 14),), 0, 0.75), Proposal(0, ((16, 23),), 1, 1 / 3))
    found = find_mentions(Proposes(*proposals), [document("Wilson disease, disease")], KB)
    assert [mention.score for mention in found.mentions] == [0.75, 1 / 3]
    bare = Corpus(replace(d, mentions=tuple(replace(m, score=None) for m in d.mentions)) for d in found)
    assert found.fingerprint == bare.fingerprint
    found.to_jsonl(tmp_path / "found.jsonl")
    assert read_documents(tmp_path / "found.jsonl", "jsonl") == found
    arbo.Linker(KB).link(found).save(tmp_path / "run")
    result = arbo.Result.load(tmp_path / "run")
    assert [link.mention for link in result.links] == list(found.mentions)
    assert "in d (found with score 0.750) is Wilson disease" in str(result.explain("d:0-14"))
    assert [row["found_score"] for row in run("show", tmp_path / "run", "--json").json["mentions"]] == [0.75, 1 / 3]
    (tmp_path / "bad.jsonl").write_text('{"id": "d", "text": "a b", "mentions": [{"spans": [[0, 1]], "score": 1e999}]}')
    with pytest.raises(DataError, match=r"'score' of a mention must be a finite number, not Infinity"):
        read_documents(tmp_path / "bad.jsonl", "jsonl")


def test_generic_names_are_left_out_unless_asked_for(run: Run, tmp_path: Path) -> None:
    names = ["Disease", *(f"{letter}ilson disease" for letter in "abcdefghijklmnopqrstu")]
    kb = KnowledgeBase(Entity(f"D{row}", name) for row, name in enumerate(names))
    kb.to_jsonl(tmp_path / "kb.jsonl")
    Corpus([document("The diseases: bilson disease.")]).to_jsonl(tmp_path / "all.jsonl")
    for how, expected in (([], ["bilson disease"]), (["--set", "find_generic=true"], ["diseases", "bilson disease"])):
        done = run("find", *linking(tmp_path), *how, "--json").ok()
        assert [mention["text"] for mention in done.json["found"]] == expected
        assert ("generic names are not looked for: disease" in done.told) == (not how)
    for base in (kb, KB, arbo.load_sample()[1], KnowledgeBase([])):
        assert DictionaryFinder().left_out(base) == sorted({*map(normalize_name, base.generic_names())})


def test_annotated_documents_are_scored_against(run: Run, folder: Path) -> None:
    docs = linking(folder)
    found, expected = run("find", *docs, "--json"), find(DictionaryFinder(), SAMPLE, BASE)
    assert found.json["mentions"] == len(expected.corpus.mentions)
    own = [BASE.entities[proposal.entity].id for proposal in expected.proposals]
    scores = json.loads(json.dumps(found_scores(SAMPLE, expected.corpus, BASE, own).as_dict()))
    assert found.json["against_annotated"] == scores
    assert "584 mentions of the documents replaced by found ones" in found.told
    assert run("link", *docs, "--find-mentions", "dictionary", "--out", folder / "other").code == 0
    assert arbo.Result.load(folder / "other").manifest["notes"]["documents"][LEFT_OUT] == 584


@pytest.fixture(scope="module")
def linked(folder: Path) -> Path:
    documents, kb = arbo.load_sample()
    arbo.Linker(kb).link(find_mentions(DictionaryFinder(), documents, kb)).save(folder / "run", texts=False)
    return folder


def test_a_run_is_scored_against_a_corpus(run: Run, linked: Path) -> None:
    result, found = arbo.Result.load(linked / "run"), find_mentions(DictionaryFinder(), SAMPLE, BASE)
    expected = found_scores(SAMPLE, found, BASE, [link.entity for link in result.links])
    scores = run_scores(result, SAMPLE, BASE)
    assert scores.as_dict() == expected.as_dict()
    assert run_scores(result, SAMPLE[::-1], BASE).links.counts == expected.links.counts
    by_name = {line.name: line for line in scores.lines}
    for group, of in (("found", scores.mentions), ("found and linked", scores.links)):
        for kind, ratios in (("exact", of.exact), ("overlapping", of.overlap)):
            line = by_name[f"{group}, {kind}"]
            assert (line.precision.value, line.recall.value, line.score.value) == pytest.approx(ratios)
    gold = ["--gold", linked / "all.jsonl", "--format", "jsonl", "--kb", linked / "kb.jsonl"]
    shown = run("evaluate", linked / "run", *gold).out
    assert f"{len(found.mentions)} found, {len(SAMPLE.mentions)} annotated" in shown
    links = run("evaluate", linked / "run", *gold, "--json").json["links"]
    assert links == json.loads(json.dumps(expected.links.as_dict()))
    # A document without any mention may be missing from the gold annotations.
    more, alone = (arbo.Linker(BASE).link(some) for some in ([*SAMPLE, document("Nothing here.", "empty")], SAMPLE))
    assert run_scores(more, SAMPLE, BASE).as_dict() == run_scores(alone, SAMPLE, BASE).as_dict()
    one, two = document("ache and cold", "e"), kb_of(Entity("D1", "ache"), Entity("D2", "cold"))
    marked = Corpus.of([replace(one, mentions=(Mention("m", "e", ((0, 13),), one.text, gold=("D2",)),))])
    for ids, right in ((["D1", "D2"], 1), ("D1", 0)):
        corrected = arbo.Linker(two).link(marked, [{"mention": "m", "entity": ids}])
        assert run_scores(corrected, marked, two).links.counts.shared_mentions == right
    assert run("evaluate", linked / "run", *gold, "--set", "kb_xrefs=MSH").code == 2  # the knowledge base has none


def test_a_run_is_scored_against_its_own_documents_alone(run: Run, linked: Path) -> None:
    result, spoilt = arbo.Result.load(linked / "run"), Corpus(Document(d.id, "x" * len(d.text)) for d in SAMPLE)
    of_another = "not made with this knowledge base; give the one that arbo"
    more, only = Corpus([*SAMPLE, document("", "more")]), "^1 document only annotated, or only in the run, such as '{}'"
    for scored, gold, of, said in (
        *((result, other, BASE, f"{only.format(id_)}; give") for other, id_ in ((SAMPLE[1:], "D01"), (more, "more"))),
        (result, spoilt, BASE, "differs from the text at its spans"),
        *((one, SAMPLE, KB, of_another) for one in (result, arbo.Linker().discover(SAMPLE))),
    ):
        with pytest.raises(arbo.ArboError, match=said):
            run_scores(scored, gold, of)
    for option, value in (("--format", "jsonl"), ("--types", "Disease"), ("--kb", linked / "kb.jsonl")):
        outcome = run("evaluate", linked / "run", option, value)
        assert (outcome.code, f"{option} needs --train or --gold" in outcome.told) == (2, True)
