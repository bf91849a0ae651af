"""Tables of documents, mentions and entities: cells, quotes, columns, Parquet."""

import csv
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from builders import save_lines
from conftest import Run
from format_files import ENTITIES, save
from test_formats import read

import arbo
from arbo.formats.table import read_column, read_entities

FLU = {"document_id": "d1", "text": " Flu, or\r\ncold ", "start": 1, "end": 4, "mention_text": "Flu"}
COLD = {"document_id": "d1", "text": None, "start": 10, "end": 14, "mention_text": "cold", "year": 7}
ROWS = [{**FLU, "entities": ["D1", "D9"]}, COLD, {"document_id": "d2", "text": "None.", "year": 8}]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_tables_of_mentions_are_those_of_frames_and_several_are_one(tmp_path: Path, kind: str) -> None:
    for name, chosen in (("a", ROWS[:1]), ("b", ROWS[1:])):
        path = tmp_path / f"{name}.{kind}"
        frame = pd.DataFrame(chosen, columns=[*FLU, "entities", "year"])
        frame = frame.astype(dict.fromkeys(("start", "end", "year"), "Int64"))
        if kind == "parquet":
            frame.to_parquet(path)
        else:
            flat = frame["entities"].map(lambda value: "|".join(value) if isinstance(value, list) else value)
            frame.assign(entities=flat).to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    corpus = arbo.read_documents(tmp_path)
    assert corpus == arbo.Corpus.of(ROWS) == arbo.read_documents([tmp_path / f"{name}.{kind}" for name in "ab"])
    assert [mention.gold for mention in corpus.mentions] == [("D1", "D9"), None]
    assert [str(item.metadata.get("year")) for item in (corpus.mentions[1], corpus[1])] == ["7", "8"]


def test_damaged_parquet_and_long_missing_or_many_cells(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    pd.DataFrame({"id": ["d1", "d1"], "text": ["flu", "cold"]}).to_parquet(path)
    with pytest.raises(arbo.DataError, match=r"docs\.parquet, row 1, 'd1': this id is already taken"):
        arbo.read_documents(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(arbo.DataError, match=r"docs\.parquet: the Parquet file is damaged, .*; write it again"):
        arbo.read_documents(path)
    pd.DataFrame({"id": [], "text": []}).to_parquet(path)
    for function in (arbo.read_documents, arbo.read_knowledge_base):
        with pytest.raises(arbo.DataError, match=r"no (documents|entities) in the format parquet"):
            function(path)
    before = csv.field_size_limit()
    (tmp_path / "docs.csv").write_text(f"id,text\nd,{'a ' * 200_000}\nd1,flu, cold\n,x\nd3,\n")
    corpus = arbo.read_documents(tmp_path / "docs.csv", on_error="skip")
    assert [len(document.text) for document in corpus] == [400_000, 0]
    assert (corpus.notes, csv.field_size_limit()) == ({"malformed documents skipped": 2}, before)
    header = ",".join(["id,name", *(f"c{n}" for n in range(16_000))])
    kb = read_entities(save_lines(tmp_path / "kb.csv", header, "E1,flu,x"), "csv")
    assert kb["E1"].metadata == {"c0": "x"}


LINES = ("Name,context,type,count,entity", "Marsh fever, a fever ,Disease,3,D1", '"fever, ""hill""",,,4,',
 " ,empty,Place,1,",
         "fen,,Place,7,")  # fmt: skip


@pytest.mark.parametrize("column", ["Name", "name"])
def test_each_cell_of_a_column_is_a_mention_with_the_columns_beside_it(tmp_path: Path, column: str) -> None:
    corpus = read_column(save_lines(tmp_path / "t.csv", *LINES), column)
    first, second, blank, third = corpus.mentions
    assert (first.text, first.spans, first.type, first.gold) == ("Marsh fever", ((0, 11),), "Disease", ("D1",))
    assert (first.metadata, corpus[0].text) == ({"count": "3"}, "Marsh fever\na fever")
    assert (second.text, second.type, second.gold, corpus[1].text) == ('fever, "hill"', None, None, 'fever, "hill"')
    assert [(mention.id, mention.document_id) for mention in corpus.mentions] == [(n, n) for n in "0123"]
    assert (third.text, blank.text, corpus[2].text, blank.type) == ("fen", " ", " ", "Place")
    own = "rows with a context, which has a meaning of its own; rename the column if it is data"
    assert corpus.notes == {"blank names, compared with nothing": 1, own: 4}


def test_a_name_stands_in_the_text_beside_it_and_has_the_id_of_its_row(tmp_path: Path) -> None:
    rows = ["id,text,name", "1,A red fen.,fen", "2,fen,fen", "3,the fen,fen", "4,dry,fen"]
    corpus = read_column(save_lines(tmp_path / "t.csv", *rows), "name")
    assert [one.text for one in corpus] == ["A red fen.", "fen", "the fen", "fen\ndry"]
    assert ([one.start for one in corpus.mentions], {one.text for one in corpus.mentions}) == ([6, 0, 4, 0], {"fen"})
    frame = pd.DataFrame({"id": [7, 9], "label": ["fen", None], "text": ["x", "y"]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.TSV", sep="\t", index=False)
    (tmp_path / "t.xlsx.tsv").write_text((tmp_path / "t.TSV").read_text())
    for file in ("t.parquet", "t.TSV", "t.xlsx.tsv"):
        assert [(one.id, one.text) for one in read_column(tmp_path / file, "label")] == [("7", "fen\nx"), ("9", " ")]
    with pytest.raises(arbo.DataError, match=r"line 1: there is no column 'label'; the columns are 'Name, context"):
        read_column(save_lines(tmp_path / "t.csv", *LINES), "label")
    with pytest.raises(arbo.DataError, match="there is no column 'name'; the columns are id, label, text"):
        read_column(tmp_path / "t.parquet", "name")
    corpus = read_column(save_lines(tmp_path / "short.csv", "nr,label,x", "1,fen,y", "2", "3,mere"), "label")
    assert [mention.text for mention in corpus.mentions] == ["fen", " ", "mere"]
    repeated = read_column(save_lines(tmp_path / "ids.csv", "id,label", "7,fen", "7,fen", "8,mere"), "label")
    assert [mention.id for mention in repeated.mentions] == ["0", "1", "2"]


def test_separators_of_names_and_quotes_of_rows(tmp_path: Path) -> None:
    for column, cell, names in (("Synonyms", "flu|grippe", ("flu", "grippe")), ("alias", "flu; B", ("flu; B",))):
        kb = read_entities(save_lines(tmp_path / "kb.csv", f"id,name,{column}", f"E1,influenza,{cell}"), "csv")
        assert kb.entities[0].aliases == names
        assert [*kb.notes.values()] == ([] if "|" in cell else [1])
    assert "separated by `|`" in next(iter(kb.notes))
    kb = read_entities(save_lines(tmp_path / "kb.tsv", "id\tname\taliases", 'D1\t"hill\tfen"', "D2\tmere\t"))
    assert [(entity.name, entity.aliases) for entity in kb] == [('"hill', ('fen"',)), ("mere", ())]
    rows = [f"d1\tthe fen and the hill\t{own}" for own in ('4\t7\t"x', "8\t11\ty", '16\t20\tz"')]
    corpus = arbo.read_documents(save_lines(tmp_path / "docs.tsv", "document_id\ttext\tstart\tend\ttype", *rows))
    assert [mention.type for mention in corpus.mentions] == ['"x', "y", 'z"']


def test_the_option_of_link_and_discover(run: Run, tmp_path: Path) -> None:
    table, kb = save_lines(tmp_path / "t.csv", *LINES), tmp_path / "kb.jsonl"
    arbo.KnowledgeBase([arbo.Entity("D1", "marsh fever"), arbo.Entity("P1", "fen", types=("Place",))]).to_jsonl(kb)
    out = tmp_path / "run"
    linked = run("link", table, "--text-column", "Name", "--types", "Place", "--kb", kb, "--out", out, "--json")
    assert (linked.code, linked.json["mentions"], linked.json["linked"]) == (0, 2, 1)
    assert "1 blank name, compared with nothing" in linked.told
    assert run("discover", table, "--text-column", "Name", "--out", out, "--json").json["mentions"] == 4
    two = run("discover", table, table, "--text-column", "Name", "--out", out)
    assert (two.code, "reads one table at a time" in two.told) == (2, True)


@pytest.mark.parametrize("header", ["id\tname", "ID\tName\tAliases\tDefinition", "id\tname\taliases", "D0\tname"])
def test_a_header_of_tsv_is_passed_over_on_the_first_line_alone(tmp_path: Path, header: str) -> None:
    kb = read("entities", save_lines(tmp_path / "kb.tsv", header, "D1\tflu", 'id\t"A" blood "group"'), "tsv")
    assert [entity.id for entity in kb] == ["D0"] * header.startswith("D") + ["D1", "id"]
    assert kb["id"].name == '"A" blood "group"'  # quotes that do not match are kept


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_lines_in_a_text_are_no_rows(tmp_path: Path, kind: str) -> None:
    file, sep = tmp_path / f"t.{kind}", "," if kind == "csv" else "\t"
    for text in ("a\nb, c", "a, b\nc, d", "a\n\nb"):
        pd.DataFrame({"id": ["d"], "text": [text]}).to_csv(file, sep=sep, index=False)
        assert [one.text for one in arbo.read_documents(file)] == [text]
    kb = read_entities(save_lines(tmp_path / "kb.csv", "id,name,definition", 'D1,flu,"A fever\nof, the, mere"'), "csv")
    assert kb["D1"].definition == "A fever\nof, the, mere"


def test_columns_without_names_are_kept_and_names_may_stand_in_comments(tmp_path: Path) -> None:
    for lines in ((",name,,id", "0,flu,x,D1", "1,cold,,D2"), (",name,,id", "0,flu,x,D1", '1,cold,"",D2', '" ",,,')):
        first, second = read_entities(save_lines(tmp_path / "kb.csv", *lines), "csv")
        assert (first.metadata, second.metadata) == ({"column 1": "0", "column 3": "x"}, {"column 1": "1"})
    above = ("#", "# Made, on Monday", "# Fields:", "# DiseaseName,DiseaseID,AltDiseaseIDs,ParentIDs,Synonyms", "#")
    kb = arbo.read_knowledge_base(save_lines(tmp_path / "c.csv", *above, 'flu,MESH:D1,OMIM:1|DO:2,,"grippe|flu, the"'))
    assert kb["DO:2"] == arbo.Entity("MESH:D1", "flu", ("grippe", "flu, the"), alternative_ids=("OMIM:1", "DO:2"))
    with pytest.raises(arbo.DataError, match=r"c\.csv, line 6, 'MESH:D1': an entity needs the key 'name'"):
        read_entities(save_lines(tmp_path / "c.csv", *above, ",MESH:D1"), "csv")
    for header in (["#id,name"], ["# ID,name"], ["# By me, 2020", "id,name"], ["# id,x", "#", "id,name"]):
        kb = read_entities(save_lines(tmp_path / "kb.csv", *header, "#,flu"), "csv")
        assert [*kb.columns("id", "name")] == [("#", "flu")]
    assert read_entities(save_lines(tmp_path / "kb.tsv", "#1\tflu", "#2\tcold"))["#1"].name == "flu"


@pytest.mark.parametrize(("kind", "delimiter"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
def test_columns_may_have_other_names(tmp_path: Path, kind: str, delimiter: str) -> None:
    lines = [["Code", "label", "other names", "owner"], ["D1", "flu", "grippe|influenza", "us"]]
    file = save_lines(tmp_path / f"kb.{kind}", *map(delimiter.join, lines))
    columns = {"id": "Code", "name": "label", "aliases": "other names"}
    (entity,) = arbo.read_knowledge_base(file, columns=columns)
    assert (entity, entity.metadata) == (arbo.Entity("D1", "flu", ("grippe", "influenza")), {"owner": "us"})
    with pytest.raises(arbo.DataError, match=r"line 1: there is no column 'code'; the columns are 'Code"):
        arbo.read_knowledge_base(file, columns={**columns, "id": "code"})
    with pytest.raises(arbo.UsageError, match=r"columns are for CSV and TSV, .* are id, name, aliases, alias$"):
        arbo.read_knowledge_base(file, columns={**columns, "alias": "owner"})
    with pytest.raises(arbo.UsageError, match="the format is jsonl"):
        arbo.read_knowledge_base(save(tmp_path, "jsonl", ENTITIES["jsonl"]), columns=columns)


@pytest.mark.parametrize(
    "text",
    [
        'id,name,aliases,note\r\nD1," a, b ","c|| ""d"" |c",x\r\n\r\n , ,,\r\nD2,e,,\r\n',
        "id;name;alternative_ids;types\nD1;a;X1|X2;T|\nD2;b;X1;\n",
        'id,name\n"D\n1",a\rD2,b',
        "id,name,aliases\nD1,a,|\nD1,a,|\n",
        'id,name\nD1,a "b" c\nD2,\u3000b\x1f',
        "id,name,aliases\nD1,a\nD2,b,c\n",
    ],
)
def test_whole_columns_are_read_as_their_rows(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kb.csv").write_bytes(text.encode())
    kb = arbo.read_knowledge_base(tmp_path / "kb.csv")

    refused = mock.Mock(side_effect=arbo.DataError("rows alone"))
    monkeypatch.setattr("arbo.formats.table.table_of_columns", refused)
    rows = arbo.read_knowledge_base(tmp_path / "kb.csv")
    assert (kb, [entity.metadata for entity in kb], kb.notes) == (rows, [e.metadata for e in rows], rows.notes)


def test_workbooks_are_tables(tmp_path: Path) -> None:
    kb = pd.DataFrame({"id": [114480, "D2"], "name": ["breast cancer", "flu"], "synonyms": ["mamma;breast", "a; b"]})
    texts = pd.DataFrame({"pmid": [1, 2], "title": ["Flu", "Breast"], "abstract": ["A grippe.", None]})
    for name, frame in (("kb", kb), ("texts", texts), ("names", kb[["name"]])):
        frame.to_excel(tmp_path / f"{name}.xlsx", index=False)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    assert arbo.read_knowledge_base(tmp_path / "kb.xlsx") == arbo.read_knowledge_base(tmp_path / "kb.csv")
    assert [*arbo.read_documents(tmp_path / "texts.xlsx")] == [*arbo.read_documents(tmp_path / "texts.csv")]
    assert [*read_column(tmp_path / "names.xlsx", "name")] == [*read_column(tmp_path / "names.csv", "name")]
    (tmp_path / "names.xlsx").write_text("name")
    with pytest.raises(arbo.DataError, match="not a workbook"):
        arbo.read_documents(tmp_path / "names.xlsx")
