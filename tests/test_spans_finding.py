"""Mentions found in unmarked documents: finders, what they propose, scores, and the command line."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from builders import kb_of, linking, sample_files

import arbo
from arbo import Corpus, DataError, Document, Entity, KnowledgeBase, Mention, find_mentions
from arbo.formats import read_documents
from arbo.spans import finding
from arbo.spans.evaluation import found_scores, run_scores
from arbo.spans.finding import LEFT_OUT, DictionaryFinder, Proposal, find
from arbo.text.names import normalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conftest import Run

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
    assert found("Wilson's diseases (WD). A WD patient has the disease; copper") == [
        ("Wilson's diseases", "D1"),  # of entities that share a name the first in the knowledge base
        ("WD", "D1"),
        ("WD", "D1"),
        ("disease", "D2"),
    ]
    assert found("rare hepatolenticular degeneration (RHD); RHD, RHDs")[1:] == [
        ("RHD", "D1"),
        ("RHD", "D1"),
        ("RHDs", "D1"),
    ]
    assert found("Wilson (WIL) disease, Wilson (or) disease") == [("Wilson (WIL) disease", "D1"), ("disease", "D2")]
    assert found("WD (Wilson disease)", DictionaryFinder(abbreviations=False)) == [("Wilson disease", "D1")]
    for hostile in ("", " \r\n", "of the", "\U0001f600" * 9, "disease-" * 3 + "\N{COMBINING ACUTE ACCENT}", "(" * 999):
        assert {entity for _, entity in found(hostile)} <= {"D2"}


def texts_of(text: str, kb: KnowledgeBase, finder: DictionaryFinder | None = None) -> list[str]:
    return [mention.text for mention in find_mentions(finder or DictionaryFinder(), [document(text)], kb).mentions]


def test_an_abbreviation_means_what_the_text_defines() -> None:
    kb = KnowledgeBase([Entity("D1", "Sacral bone", ("SAC",)), Entity("D2", "von Hippel-Lindau disease", ("VHL",))])
    for text, expected in (
        ("SAC", ["SAC"]),
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
    assert [id(kb) for kb in made] == [id(KB), id(other), id(KB)]
    assert finder == DictionaryFinder()
    assert finder.__hash__() == DictionaryFinder().__hash__()


def test_found_mentions_are_mentions_of_their_documents() -> None:
    old = Mention("m", "d", ((0, 6),), "Wilson", gold=("D2",))
    given = Corpus([Document("d", "Wilson disease, disease", (old,)), document("copper", "c", "chemistry")], {"odd": 1})
    result = find_mentions(DictionaryFinder(), given, KB)
    assert [(m.id, m.text, m.type, m.gold) for m in result.mentions] == [
        ("d:0-14", "Wilson disease", "Disease", None),
        ("d:16-23", "disease", None, None),
        ("c:0-6", "copper", None, None),
    ]
    assert result.notes == {"odd": 1, LEFT_OUT: 1}
    assert [d.text for d in result] == [d.text for d in given]
    assert find_mentions(DictionaryFinder(), [], KB).mentions == ()
    assert len(arbo.Linker(KB).link(result[:1]).links) == 2


class Proposes:
    """Proposes what it is given."""

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
    for given in (proposals, proposals[::-1]):
        result = find(Proposes(*given), [document("x" * 12), document("y" * 3, "e")], KB)
        assert result.proposals == (proposals[0], proposals[3], proposals[5])


def test_scores_end_to_end_by_hand() -> None:
    text = "a b c d e f"

    def marked(*given: tuple[tuple[int, int], tuple[str, ...] | None]) -> Corpus:
        mentions = (
            Mention(f"m{i}", "d", (span,), text[slice(*span)], gold=gold) for i, (span, gold) in enumerate(given)
        )
        return Corpus([Document("d", text, tuple(mentions))])

    gold = marked(((0, 3), ("D1", "D2")), ((4, 5), ("D2",)), ((6, 7), ("X",)), ((8, 9), ()))
    result = marked(((0, 3), None), ((4, 7), None), ((8, 9), None), ((10, 11), None))
    scores = found_scores(gold, result, KB, ["D2", "D2", None, "D4"])
    assert scores.mentions.counts[3:] == (4, 4, 2, 4, 3)
    assert scores.links.counts[3:] == (2, 3, 1, 2, 2)
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
    shown = run("find", *notes, "--out", folder / "out" / "found.jsonl").ok()
    assert "5 mentions of 3 entities found in 3 documents" in shown.out
    assert "[RV Petrel]" in shown.out
    assert "\\x1b[31m" in shown.out
    at_once = run("link", *notes, "--find-mentions", "dictionary", "--out", folder / "once", "--json")
    apart = run("link", folder / "out" / "found.jsonl", "--format", "jsonl", *kb, "--out", folder / "apart", "--json")
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
    with pytest.raises(DataError, match=r"'score' of a mention must be a finite number, not inf"):
        read_documents(tmp_path / "bad.jsonl", "jsonl")


def test_generic_names_are_left_out_unless_asked_for(run: Run, tmp_path: Path) -> None:
    names = ["Disease", *(f"{letter}ilson disease" for letter in "abcdefghijklmnopqrstu")]
    kb = KnowledgeBase(Entity(f"D{row}", name) for row, name in enumerate(names))
    kb.to_jsonl(tmp_path / "kb.jsonl")
    Corpus([document("The diseases: bilson disease.")]).to_jsonl(tmp_path / "all.jsonl")
    for words, expected in (([], ["bilson disease"]), (["--set", "find_generic=true"], ["diseases", "bilson disease"])):
        done = run("find", *linking(tmp_path), *words, "--json").ok()
        assert [mention["text"] for mention in done.json["found"]] == expected
        assert ("generic names are not looked for: disease" in done.told) == (not words)
    for base in (kb, KB, arbo.load_sample()[1], KnowledgeBase([])):
        assert DictionaryFinder().left_out(base) == sorted({*map(normalize_name, base.generic_names())})


def test_annotated_documents_are_scored_against(run: Run, folder: Path) -> None:
    docs = linking(folder)
    found = run("find", *docs, "--json")
    documents, kb = arbo.load_sample()
    expected = find(DictionaryFinder(), documents, kb)
    assert found.json["mentions"] == len(expected.corpus.mentions)
    own = [kb.entities[proposal.entity].id for proposal in expected.proposals]
    scores = json.loads(json.dumps(found_scores(documents, expected.corpus, kb, own).as_dict()))
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
    documents, kb = arbo.load_sample()
    result = arbo.Result.load(linked / "run")
    found = find_mentions(DictionaryFinder(), documents, kb)
    expected = found_scores(documents, found, kb, [link.entity for link in result.links])
    scores = run_scores(result, documents, kb)
    assert scores.as_dict() == expected.as_dict()
    assert run_scores(result, documents[::-1], kb).links.counts == expected.links.counts
    by_name = {line.name: line for line in scores.lines}
    for group, of in (("found", scores.mentions), ("found and linked", scores.links)):
        for kind, ratios in (("exact", of.exact), ("overlapping", of.overlap)):
            line = by_name[f"{group}, {kind}"]
            assert (line.precision.value, line.recall.value, line.score.value) == pytest.approx(ratios)
    gold = ["--gold", linked / "all.jsonl", "--format", "jsonl", "--kb", linked / "kb.jsonl"]
    shown = run("evaluate", linked / "run", *gold).out
    assert f"{len(found.mentions)} found, {len(documents.mentions)} annotated" in shown
    links = run("evaluate", linked / "run", *gold, "--json").json["links"]
    assert links == json.loads(json.dumps(expected.links.as_dict()))
    # A document without any mention may be missing from the gold annotations.
    more, alone = (arbo.Linker(kb).link(some) for some in ([*documents, document("Nothing here.", "empty")], documents))
    assert run_scores(more, documents, kb).as_dict() == run_scores(alone, documents, kb).as_dict()


def test_a_run_is_scored_against_its_own_documents_alone(run: Run, linked: Path) -> None:
    documents, kb = arbo.load_sample()
    result = arbo.Result.load(linked / "run")
    spoilt = Corpus(Document(d.id, "x" * len(d.text)) for d in documents)
    of_another = "not made with this knowledge base; give the one that arbo"
    for scored, gold, of, words in (
        (result, documents[1:], kb, r"^1 of .* of the run are not annotated, such as 'D01'; give"),
        (result, Corpus([*documents, document("", "more")]), kb, r"^1 of .* are not in the run, such as 'more'; give"),
        (result, spoilt, kb, "differs from the text at its spans"),
        *((one, documents, KB, of_another) for one in (result, arbo.Linker().discover(documents))),
    ):
        with pytest.raises(arbo.ArboError, match=words):
            run_scores(scored, gold, of)
    for option, value in (("--format", "jsonl"), ("--types", "Disease"), ("--kb", linked / "kb.jsonl")):
        outcome = run("evaluate", linked / "run", option, value)
        assert (outcome.code, f"{option} needs --train or --gold" in outcome.told) == (2, True)
