"""Hostile inputs that belong to no single module: a right answer or a clear error, and no document text in any log."""

import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from builders import dual_encoder, passage

import arbo
from arbo.data.corpus import Corpus
from arbo.encoders import dual
from arbo.encoders.tower import Tower

SECRET = "Zebulon"

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight")])


def test_emoji_and_combining_marks_shift_no_mention(tmp_path: Path) -> None:
    text = "\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301\u0300 \U0001f98a\r\nmarsh fever \u0e01\u0e34 kelp blight"
    Corpus.of([passage("d", text, "kelp blight", "marsh fever")]).to_jsonl(tmp_path / "documents.jsonl")
    result = arbo.Linker(KB).link(arbo.read_documents(tmp_path / "documents.jsonl"))
    assert [(link.mention.text, link.entity) for link in result.links] == [("kelp blight", "E2"), ("marsh fever", "E1")]


def test_circles_in_an_ontology_end(tmp_path: Path) -> None:
    terms = [f"[Term]\nid: U:{i}\nname: name {i}\nis_a: U:{j}\n" for i, j in ((1, 2), (2, 1), (3, 3))]
    replaced = [term.replace("U:", "V:").replace("is_a", "is_obsolete: true\nreplaced_by") for term in terms]
    (tmp_path / "circle.obo").write_text("\n".join([*terms, *replaced]))
    assert [entity.id for entity in arbo.read_knowledge_base(tmp_path / "circle.obo")] == ["U:1", "U:2", "U:3"]


@pytest.mark.parametrize("unit", ["(1", "(1)|", "|", "# ", ");part ", "T1\t", " "])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("conll", "#begin document (aX);\nd\t0\t0\tword\tX\n#end document\n"),
        ("hipe", "TOKEN\tNE-COARSE-LIT\tNEL-LIT\n#Xdocument_id = d\n# document_id = X\nw\tO\t_\n"),
        ("pubtator", "1|t|X\n1|a|b\n1\t0\t1\tX\tx\tX\n"),
        ("gsc", "d\nX\n0\t1\tX\tc\n"),
    ],
)
def test_no_line_makes_a_reader_run_away(tmp_path: Path, name: str, content: str, unit: str) -> None:
    file, begin = tmp_path / "a", time.process_time()
    file.write_text(content.replace("X", unit * (100_000 // len(unit))))
    with suppress(arbo.DataError):
        arbo.read_documents(file, name)
    assert time.process_time() - begin < 5, "quadratic time would take minutes"


def test_work_logs_no_text(tmp_path: Path, bert: Tower, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


_PASSAGE = {"offset": 0, "text": "X was ill", "annotations": [{"locations": [{"offset": 1, "length": 7}], "text": "X"}]}
_CONLL = ("@X\n", "@d\t0\t0\tX\n", "d\t0\t0\tX\t-\n@")
MALFORMED = {
    "jsonl": [
        '{"id": "d", "text": "X" "mentions": []}\n',
        '{"id": "d", "text": "X", "mentions": [{"spans": [[3, 99]]}]}\n',
        '{"id": 5, "text": "X"}\n',
        '{"id": "d", "text": ["X"]}\n',
    ],
    "pubtator": [
        "1|t|A\n1|a|B\nX was ill.\n",
        "1|t|X\n1|a|B\n1\t1\t8\tX\tDisease\tD1\n",
        "1|t|X\n1|a|B\n1\t7\tX\tDisease\tD1\n",
        "1|t|A\n1|a|B\nX\twas\tvery\till\tx\n",
    ],
    "bioc": [json.dumps({"id": "d", "passages": [_PASSAGE]})],
    "gsc": ["d\nX was ill\n1\t8\tX\tHP:1\n", "d\nA case.\n\nX was ill.\n", "d\nX was ill\n0\tX\tx\tHP:1\n"],
    "brat": ["T1\tDisease 1 8\tX\n", "T1\tX\n", "T1\tMr X\tDisease 0 1\n", "The X was ill\n"],
    "conll": [text.replace("@", "#begin document (d);\n") + "#end document\n" for text in _CONLL],
    "hipe": [f"TOKEN\tNE-COARSE-LIT\tNEL-LIT\n# document_id = d\n{line}\nw\tO\t_\n" for line in ("X", "O\tX\t_")],
    "ecbplus": ["d\t0\tX\t1\nd\t0\t1\tw\n"],
}
"""Files of each format, of which something is skipped; X is the text that no log may have."""


@pytest.mark.parametrize(("form", "content"), [(form, one) for form, some in MALFORMED.items() for one in some])
def test_logs_of_what_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str, content: str) -> None:
    for name, text in (("a", content), ("a.ann", content), ("a.txt", "A"), ("a_corpus.txt", content)):
        (tmp_path / name).write_text(text.replace("X", SECRET))
    (tmp_path / "a_Entity_gold_mentions.json").write_text("[]")
    caplog.set_level(logging.INFO)
    with suppress(arbo.DataError):  # there may be nothing else
        file = {"brat": "a.ann", "ecbplus": "a_corpus.txt"}.get(form, "a")
        arbo.read_documents(tmp_path / file, form, on_error="skip")
    assert caplog.messages
    assert SECRET not in caplog.text
