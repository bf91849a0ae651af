"""A run as a spreadsheet that somebody fills in, and the corrections that it then holds."""

import csv
from pathlib import Path

import openpyxl
import pytest
from conftest import Run, Sample

import arbo
from arbo.corrections.lines import corrections_of
from arbo.formats import xlsx
from arbo.formats.xlsx import read_cells
from arbo.kb.saving import save

ANSWERS = {
    "ok": {"entity": "E1"},
    " nil ": {"entity": None},
    "-": {"entity": None},
    "not": {"not": "E1"},
    "DROP": {"drop": True},
    "new: The Marsh": {"new": "The Marsh"},
    "114480": {"entity": "114480"},
    "E2; E3": {"entity": ["E2", "E3"]},
    "E2;E2;": {"entity": "E2"},
    "101.0": {"entity": "101"},
    "'-x": {"entity": "-x"},
}


def filled(file: Path, to: Path, answers: dict[str, str]) -> None:
    """Write the answers about mentions into the last column, and the last rows first."""
    if file.suffix == ".xlsx":
        book = openpyxl.load_workbook(file)
        assert [cell.value for cell in book.active[1]][-1] == "reviewed"
        for row in book.active.iter_rows(min_row=2):
            if row[0].value in answers:
                row[-1].value = answers[row[0].value]
        book.save(to)
        return
    with file.open(encoding="utf-8-sig", newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header[-1] == "reviewed"
    with to.open("w", encoding="utf-8", newline="") as stream:  # as some office programs save it
        given = ([*row[:-1], answers.get(row[0], "")] for row in reversed(rows))
        csv.writer(stream, delimiter=";").writerows([header, *given])


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_filled_export_is_obeyed(kind: str, sample: Sample, result: arbo.Result, run: Run, tmp_path: Path) -> None:
    documents, kb = sample
    arbo.Linker(kb).link(documents).save(tmp_path / "run")
    save(kb, tmp_path / "kb.jsonl")
    file, back = tmp_path / f"links.{kind}", tmp_path / f"reviewed.{kind}"
    assert run("export", tmp_path / "run", "--to", kind, "--out", file).code == 0
    links = [link for link in result.links if link.entity is not None]
    answers = {links[0].mention.id: "ok", links[5].mention.id: "NIL", links[9].mention.id: kb.entities[3].id}
    answers["D10:0-0"] = "ok"  # no such row
    filled(file, back, answers)
    words = ["add", tmp_path / "run", "--kb", tmp_path / "kb.jsonl", "--corrections", back, "--out", tmp_path / "new"]
    assert "3 corrections: 3 obeyed, 0 replaced, 0 waiting, 0 conflict" in run(*words).ok().told
    after = arbo.Result.load(tmp_path / "new")
    assert after.link_of(links[0].mention.id).entity == links[0].entity
    assert after.link_of(links[5].mention.id).entity is None
    assert after.link_of(links[9].mention.id).entity == kb.entities[3].id
    assert [row["status"] for row in after.corrections] == ["obeyed"] * 3


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_each_answer_is_a_correction(kind: str, tmp_path: Path) -> None:
    file, mark = tmp_path / f"sheet.{kind}", "\t" if kind == "tsv" else ","
    header = ("Mention_ID", "document_id", "start", "end", "entity_id", "author", "reviewed")
    rows = [("'＝m", "d", "3", "9.0", "E1", "Ann", answer) for answer in [*ANSWERS, ""]]
    file.write_text("\n".join(mark.join(row) for row in [header, *rows]))
    lines = corrections_of(file)
    wanted = [{"document": "d", "spans": [[3, 9]]} if "drop" in of else {"mention": "＝m"} for of in ANSWERS.values()]
    answers = zip(wanted, ANSWERS.values(), strict=True)
    assert [line.record for line in lines] == [about | of | {"author": "Ann"} for about, of in answers]
    assert [line.line for line in lines] == [*range(2, len(ANSWERS) + 2)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("mention_id,text\nm,x\n", "has no column reviewed; arbo export makes a table"),
        ("mention_id,reviewed\nm,\nm,ok\n", "line 3, .m.: .ok. does not fit the row: .* no column .entity_id"),
        ("mention_id,entity_id,reviewed\nm,,not\n", "line 2, 'm': 'not' does not fit .*: the mention has no entity"),
        ("", "no column mention_id"),
        ("mention_id,reviewed\nm,;\n", "line 2, 'm': ';' does not fit the row: there is no id"),
        ("mention_id,entity_id,reviewed\nm,E1|E2,not\n", "line 2, 'm': .*the mention has several entities"),
        ("mention_id,reviewed\nm,\n", "the column reviewed is empty"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_text(content)
    with pytest.raises(arbo.DataError, match=message):
        corrections_of(tmp_path / "sheet.csv")


def test_several_entities_stay_several_and_columns_of_documents_are_no_answers(tmp_path: Path, run: Run) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "flu"), arbo.Entity("E2", "cold")])
    texts, more = {"a": "flu", "b": "cold"}, {"reviewed": "drop", "author": "Smith"}
    mentions = {id_: [{"id": id_, "spans": [[0, len(text)]]}] for id_, text in texts.items()}
    documents = [{"id": id_, "text": text, "mentions": mentions[id_], **more} for id_, text in texts.items()]
    both = arbo.Linker(kb).link(documents, [{"mention": "a", "entity": ["E1", "E2"]}])
    both.save(tmp_path / "run")
    both.export(tmp_path / "links.csv", "csv")
    with pytest.raises(arbo.DataError, match="reviewed is empty"):
        corrections_of(tmp_path / "links.csv")
    filled(tmp_path / "links.csv", tmp_path / "back.csv", {"a": "ok"})
    assert [line.record for line in corrections_of(tmp_path / "back.csv")] == [{"mention": "a", "entity": ["E1", "E2"]}]
    (tmp_path / "run.xlsx").touch()
    refused = run("review", tmp_path / "run", "--corrections", tmp_path / "run.xlsx")
    assert "a review does not write the spreadsheet" in refused.err


def test_a_workbook_keeps_texts_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = arbo.Linker().discover(["=1+1", "-2", "a\x0bb", "same", "same"])
    found.export(tmp_path / "run.xlsx", "xlsx")
    book = openpyxl.load_workbook(tmp_path / "run.xlsx")
    (offered,) = book.active.data_validations.dataValidation
    assert offered.formula1 == '"ok,NIL,not,drop"'
    assert str(offered.sqref).endswith("6")
    book.create_sheet("Legend", 0).append(["what the colours mean"])
    book.save(tmp_path / "run.xlsx")
    cells = read_cells(tmp_path / "run.xlsx", "mention_id")
    place = cells[0][1].index("text")
    assert [row[place] for _, row in cells[1:]] == ["=1+1", "-2", "a b", "same", "same"]
    (tmp_path / "no.xlsx").write_text("mention_id,reviewed\n")
    with pytest.raises(arbo.DataError, match="not a workbook"):
        corrections_of(tmp_path / "no.xlsx")
    monkeypatch.setattr(xlsx, "LARGEST_ARCHIVE", 2**10)
    with pytest.raises(arbo.DataError, match="unpacks to more than"):
        read_cells(tmp_path / "run.xlsx", "mention_id")
    with pytest.raises(arbo.DataError, match="cannot be read: No such file"):
        read_cells(tmp_path / "none.xlsx", "mention_id")


def test_an_id_that_ends_in_a_nought_stays_beside_others(tmp_path: Path) -> None:
    (file := tmp_path / "sheet.csv").write_text("mention_id,entity_id,reviewed\na,250.0,ok\nb,,001.0\nc,V45,\n")
    assert [line.value for line in corrections_of(file)] == ["250.0", "001.0"]  # codes of ICD-9
    file.write_text(file.read_text().replace("V45", "7.0"))
    assert [line.value for line in corrections_of(file)] == ["250", "001.0"]
