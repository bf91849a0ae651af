"""Hostile inputs that belong to no single module: a right answer or a clear error, and no document text in any log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from builders import dual_encoder, passage

import arbo
from arbo.data.corpus import Corpus
from arbo.encoders import dual
from arbo.encoders.tower import Tower
from arbo.formats.bioc import read_bioc
from arbo.formats.brat import read_brat
from arbo.formats.conll import read_conll
from arbo.formats.ecbplus import read_ecbplus
from arbo.formats.gsc import read_gsc
from arbo.formats.hipe import read_hipe
from arbo.formats.jsonl import read_jsonl
from arbo.formats.obo import read_obo
from arbo.formats.pubannotation import read_pubannotation
from arbo.formats.pubtator import read_pubtator

SECRET = "Zebulon"

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight")])


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where the block works longer: seconds where quadratic time would take minutes."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < seconds


# Text and spans


def test_identical_spans_with_two_entities_are_linked_alike_and_scored_apart() -> None:
    span = ((0, 11),)
    mentions = tuple(arbo.Mention(f"m{i}", "d", span, "marsh fever", None, (f"E{i}",)) for i in (1, 2))
    result = arbo.Linker(KB).link([arbo.Document("d", "marsh fever", mentions)])
    assert [link.entity for link in result.links] == ["E1", "E1"]
    linking = result.evaluate().linking
    assert linking is not None
    assert (linking.overall.mentions, linking.overall.correct) == (2, 1)


def test_emoji_and_combining_marks_shift_no_mention(tmp_path: Path) -> None:
    text = "\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301\u0300 \U0001f98a\r\nmarsh fever \u0e01\u0e34 kelp blight"
    Corpus.of([passage("d", text, "kelp blight", "marsh fever")]).to_jsonl(tmp_path / "documents.jsonl")
    result = arbo.Linker(KB).link(read_jsonl(tmp_path / "documents.jsonl"))
    assert [(link.mention.text, link.entity) for link in result.links] == [("kelp blight", "E2"), ("marsh fever", "E1")]


# Knowledge bases


def test_circles_in_an_ontology_end(tmp_path: Path) -> None:
    terms = [f"[Term]\nid: U:{i}\nname: name {i}\nis_a: U:{j}\n" for i, j in ((1, 2), (2, 1), (3, 3))]
    replaced = [term.replace("U:", "V:").replace("is_a", "is_obsolete: true\nreplaced_by") for term in terms]
    (tmp_path / "circle.obo").write_text("\n".join([*terms, *replaced]))
    assert [entity.id for entity in read_obo(tmp_path / "circle.obo")] == ["U:1", "U:2", "U:3"]


def test_a_knowledge_base_of_one_entity_through_every_method() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")])
    documents = [passage("d", "marsh fever and kelp blight", "marsh fever", "kelp blight", gold=("E1",))]
    for method in ("arborescence", "minimax", "undirected", "independent"):
        result = arbo.Linker(kb, config=arbo.LinkerConfig(method=method)).link(documents)  # type: ignore[arg-type]
        assert [link.entity for link in result.links] == ["E1", None]
        assert result.evaluate().linking is not None


def test_a_knowledge_base_that_changed_is_embedded_anew(tmp_path: Path, bert: Tower) -> None:
    encoder = dual_encoder(bert, cache=tmp_path)
    documents = [passage("d", "marsh fever", "marsh fever")]
    first = arbo.Linker(KB, encoder=encoder).link(documents)
    swapped = arbo.KnowledgeBase([replace(KB["E1"], name="kelp blight"), replace(KB["E2"], name="marsh fever")])
    second = arbo.Linker(swapped, encoder=encoder).link(documents)
    assert [first.links[0].entity, second.links[0].entity] == ["E1", "E2"]
    assert KB.fingerprint != swapped.fingerprint
    assert first.manifest["knowledge_base"] != second.manifest["knowledge_base"]


# Files


# Regular expressions


@pytest.mark.parametrize("unit", ["(1", "(1)|", "|", "# ", ");part ", "T1\t", " "])
@pytest.mark.parametrize("name", ["conll", "hipe", "pubtator", "gsc", "obo"])
def test_no_line_makes_a_reader_run_away(tmp_path: Path, name: str, unit: str) -> None:
    hostile = unit * (100_000 // len(unit))
    file = tmp_path / f"a.{name}"
    file.write_text(
        {
            "conll": f"#begin document (a{hostile});\nd\t0\t0\tword\t{hostile}\n#end document\n",
            "hipe": f"TOKEN\tNE-COARSE-LIT\tNEL-LIT\n#{hostile}document_id = d\n# document_id = {hostile}\nw\tO\t_\n",
            "pubtator": f"1|t|{hostile}\n1|a|b\n1\t0\t1\t{hostile}\tx\t{hostile}\n",
            "gsc": f"d\n{hostile}\n0\t1\t{hostile}\tc\n",
            "obo": f"[Term]\nid: U:1\nname: {hostile}\nsynonym: {hostile}\n",
        }[name]
    )
    read: Callable[..., object] = {
        "conll": read_conll,
        "hipe": read_hipe,
        "pubtator": read_pubtator,
        "gsc": read_gsc,
        "obo": read_obo,
    }[name]
    with within(5), suppress(arbo.DataError):
        read(file)


# What is logged


def test_work_logs_no_text(
    tmp_path: Path, bert: Tower, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dual, "SLICE", 1)
    caplog.set_level(logging.DEBUG, "")
    kb = arbo.KnowledgeBase([*KB, arbo.Entity("E3", f"{SECRET} disease", definition=SECRET)])
    text = f"{SECRET} has {SECRET} disease (ZD) and kelp blight"
    documents = [passage("d", text, f"{SECRET} disease", "ZD", "kelp blight", gold=("E3",))]
    encoder = dual_encoder(bert, arbo.EncoderConfig.in_context(), tmp_path / "cache")
    for linker in (arbo.Linker(kb), arbo.Linker(kb, encoder=encoder)):
        linker.link(documents).save(tmp_path / "run")
        linker.discover(documents)
        linker.tune(documents)
        arbo.Result.load(tmp_path / "run").evaluate()
    for file in (tmp_path / "cache").rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    arbo.Linker(kb, encoder=encoder).link(documents)
    assert any("is ignored" in said for said in caplog.messages)
    assert SECRET not in caplog.text
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in (tmp_path / "cache").rglob("*.*"))


MALFORMED = {
    "jsonl, not JSON": (read_jsonl, {"a.jsonl": f'{{"id": "d", "text": "{SECRET}" "mentions": []}}\n'}),
    "jsonl, a span out of range": (
        read_jsonl,
        {"a.jsonl": f'{{"id": "d", "text": "{SECRET}", "mentions": [{{"spans": [[3, 99]]}}]}}\n'},
    ),
    "jsonl, text as a number": (read_jsonl, {"a.jsonl": f'{{"id": 5, "text": "{SECRET}"}}\n'}),
    "jsonl, a text that is a list": (read_jsonl, {"a.jsonl": f'{{"id": "d", "text": ["{SECRET}"]}}\n'}),
    "pubtator, a line of the abstract": (read_pubtator, {"a.txt": f"1|t|A\n1|a|B\n{SECRET} was ill.\n"}),
    "pubtator, offsets that are wrong": (
        read_pubtator,
        {"a.txt": f"1|t|{SECRET}\n1|a|B\n1\t1\t8\t{SECRET}\tDisease\tD1\n"},
    ),
    "pubtator, no start": (read_pubtator, {"a.txt": f"1|t|{SECRET}\n1|a|B\n1\t7\t{SECRET}\tDisease\tD1\n"}),
    "pubtator, no id": (read_pubtator, {"a.txt": f"1|t|A\n1|a|B\n{SECRET}\twas\tvery\till\tx\n"}),
    "pubannotation, a span out of range": (
        read_pubannotation,
        {"a.json": f'{{"text": "{SECRET}", "denotations": [{{"span": {{"begin": 0, "end": 99}}}}]}}'},
    ),
    "bioc, offsets that are wrong": (
        read_bioc,
        {
            "a.json": f'{{"id": "d", "passages": [{{"offset": 0, "text": "{SECRET} was ill", "annotations": '
            f'[{{"locations": [{{"offset": 1, "length": 7}}], "text": "{SECRET}"}}]}}]}}'
        },
    ),
    "gsc, offsets that are wrong": (read_gsc, {"a.tsv": f"d\n{SECRET} was ill\n1\t8\t{SECRET}\tHP:1\n"}),
    "gsc, a blank line in the text": (read_gsc, {"a.tsv": f"d\nA case.\n\n{SECRET} was ill.\n"}),
    "gsc, no start": (read_gsc, {"a.tsv": f"d\n{SECRET} was ill\n0\t{SECRET}\tx\tHP:1\n"}),
    "brat, offsets that are wrong": (
        read_brat,
        {"a.tsv": f"{SECRET} was ill", "a.ann": f"T1\tDisease 1 8\t{SECRET}\n"},
    ),
    "brat, a line of text": (read_brat, {"a.txt": "A", "a.ann": f"T1\t{SECRET}\n"}),
    "brat, columns exchanged": (read_brat, {"a.txt": "A", "a.ann": f"T1\tMr {SECRET}\tDisease 0 1\n"}),
    "brat, a line that begins with T": (read_brat, {"a.txt": "A", "a.ann": f"The {SECRET} was ill\n"}),
    "conll, a word alone": (read_conll, {"a.conll": f"#begin document (d);\n{SECRET}\n#end document\n"}),
    "conll, no chains": (read_conll, {"a.conll": f"#begin document (d);\nd\t0\t0\t{SECRET}\n#end document\n"}),
    "conll, a word outside": (read_conll, {"a.conll": f"d\t0\t0\t{SECRET}\t-\n#begin document (d);\n#end document\n"}),
    "hipe, a word alone": (
        read_hipe,
        {"a.tsv": f"TOKEN\tNE-COARSE-LIT\tNEL-LIT\n# document_id = d\n{SECRET}\nw\tO\t_\n"},
    ),
    "hipe, columns exchanged": (
        read_hipe,
        {"a.tsv": f"TOKEN\tNE-COARSE-LIT\tNEL-LIT\n# document_id = d\nO\t{SECRET}\t_\nw\tO\t_\n"},
    ),
    "ecbplus, columns exchanged": (
        read_ecbplus,
        {"a_corpus.txt": f"d\t0\t{SECRET}\t1\nd\t0\t1\tw\n", "a_Entity_gold_mentions.json": "[]"},
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_skipped_is_logged_without_its_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    read, files = MALFORMED[case]
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    caplog.set_level(logging.INFO)
    read(tmp_path, on_error="skip")
    assert caplog.messages
    assert SECRET not in caplog.text
