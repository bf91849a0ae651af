from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import save_lines

import arbo
from arbo.data.corpus import Corpus
from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.formats import read_documents, read_knowledge_base


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., KnowledgeBase]:
    """Read lines as a table."""

    def read(*lines: str, end: str = "\n") -> KnowledgeBase:
        return read_knowledge_base(save_lines(tmp_path / "kb.tsv", *lines, end=end), "tsv")

    return read


@pytest.mark.parametrize(
    ("line", "entity"),
    [
        ("D1\tflu", Entity("D1", "flu")),
        ("D1\tflu\tgrippe", Entity("D1", "flu", ("grippe",))),
        ("D1\tflu\tgrippe | influenza\tA disease.", Entity("D1", "flu", ("grippe", "influenza"), "A disease.")),
        ("D1\tflu\t\tA disease.", Entity("D1", "flu", (), "A disease.")),
        ("D1\tflu\t\t", Entity("D1", "flu")),
        (' D1 \t"flu" ', Entity("D1", '"flu"')),
        ("D1\tflu|cold", Entity("D1", "flu|cold")),
        ("=cmd()\t<script>", Entity("=cmd()", "<script>")),
    ],
)
def test_a_line_is_an_entity(read: Callable[..., KnowledgeBase], line: str, entity: Entity) -> None:
    assert list(read(line)) == [entity]
    assert list(read("", line, " ", end="\r\n")) == [entity]


@pytest.mark.parametrize("header", ["id\tname", "ID\tName\tAliases\tDefinition", "\ufeffid\tname\taliases"])
def test_a_header_is_passed_over_on_the_first_line_alone(read: Callable[..., KnowledgeBase], header: str) -> None:
    assert [entity.id for entity in read(header, "D1\tflu")] == ["D1"]
    assert [entity.id for entity in read("D1\tflu", "id\tname")] == ["D1", "id"]


def test_quirks_are_counted(read: Callable[..., KnowledgeBase]) -> None:
    kb = read("D1\tflu\tgrippe||", "D2\tcold", "D2\tcold")
    assert kb["D1"].aliases == ("grippe",)
    assert kb.notes == {"empty aliases dropped": 2, "duplicate entities dropped": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("D2", "'D2': an entity needs the key 'name'"),
        (
            "D2\ta\tb\tc\td",
            "'D2': the line has 5 cells for 4 columns \\(id, name, aliases, definition\\); quote the cells",
        ),
        ("\tcold", "the cell 'id' is empty; fill it, or drop the row"),
        ("D2\t ", "'D2': an entity needs the key 'name'"),
        ("D1\tcold", r"'D1': this id is already taken, with different content \(.*, line 1\)"),
    ],
)
def test_a_malformed_line_is_named(read: Callable[..., KnowledgeBase], line: str, problem: str) -> None:
    with pytest.raises(DataError, match=rf"kb\.tsv, line 2(, |: ){problem}"):
        read("D1\tflu", line)


def test_the_real_table_has_its_published_count(shared: Callable[[str], Path]) -> None:
    kb = read_knowledge_base(shared("data/mesh/mesh_descriptors.tsv"), "tsv")
    assert (len(kb), len(kb.names().names), kb.notes) == (29_054, 29_054, {})
    assert kb["D019305"].name == "Epilepsy, Rolandic"


# Tables of documents, and CSV and Parquet of both


CSV = """ID;Name;Aliases;Parents
D1;"flu; grippe";influenza | "la" grippe;D0|D9
D2;"a ""cold"", or
two";;
"""


def test_cells_may_be_quoted_and_columns_further(tmp_path: Path) -> None:
    (tmp_path / "kb.csv").write_text(CSV)
    expected = [Entity("D1", "flu; grippe", ("influenza", '"la" grippe')), Entity("D2", 'a "cold", or\ntwo')]
    kb = read_knowledge_base(tmp_path / "kb.csv")
    assert list(kb) == expected
    assert kb["D1"].metadata == {"Parents": "D0|D9"}
    assert kb["D2"].metadata == {}
    tabs = CSV.replace(";", "\t").replace("flu\t", "flu;")
    (tmp_path / "kb.tsv").write_text(tabs, "utf-16")
    assert list(read_knowledge_base(tmp_path / "kb.tsv")) == expected


def test_a_tsv_whose_quotes_do_not_match_keeps_them(read: Callable[..., KnowledgeBase]) -> None:
    assert [entity.name for entity in read('D1\t"cold"', 'D2\t"A" blood group', 'D3\t5" needle')] == [
        '"cold"',
        '"A" blood group',
        '5" needle',
    ]
    assert [entity.name for entity in read('D1\t"cold"', 'D3\t5" needle')] == ["cold", '5" needle']


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            'id,name\nD1,"flu"x\n',
            r"line 2: the quotes of a cell do not match \(.*\); write each quote inside a cell twice",
        ),
        ('id,name\nD1,flu\nD2,"cold\n', "line 3: the quotes of a cell do not match"),
        ("id,name,name\n", "line 1: two columns are named 'name'; rename one"),
        (
            "name,aliases\nflu,\n",
            "line 1: the first line must name the columns, among them id or document_id; it has 'name",
        ),
        ("id,name\nD1,flu,grippe\n", "line 2, 'D1': the line has 3 cells for 2 columns"),
        ("id,name\nD1,fl\0u\n", "line 2, 'D1': the entity's name has a NUL at character 2"),
    ],
)
def test_a_malformed_csv_is_named(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "kb.csv").write_text(content)
    with pytest.raises(DataError, match=rf"kb\.csv, {problem}"):
        read_knowledge_base(tmp_path / "kb.csv")


def test_a_malformed_row_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "docs.csv").write_text("id,text\nd1,flu, cold\nd2,flu\n,x\nd3,\n")
    corpus = read_documents(tmp_path / "docs.csv", on_error="skip")
    assert [document.id for document in corpus] == ["d2", "d3"]
    assert corpus.notes == {"malformed documents skipped": 2}


ROWS = [
    {
        "document_id": "d1",
        "text": " Flu, or\r\ncold ",
        "start": 1,
        "end": 4,
        "mention_text": "Flu",
        "entities": ["D1", "D9"],
    },
    {"document_id": "d1", "text": None, "start": 10, "end": 14, "mention_text": "cold", "year": 7},
    {"document_id": "d2", "text": "None.", "year": 8},
]


def flat(value: object) -> object:
    return "|".join(value) if isinstance(value, list) else value


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_tables_of_mentions_are_those_of_frames(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"m.{kind}"
    frame = pd.DataFrame(ROWS).astype(dict.fromkeys(("start", "end", "year"), "Int64"))
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.assign(entities=frame["entities"].map(flat)).to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    corpus = read_documents(path)
    assert corpus == Corpus.of(ROWS)
    assert [mention.gold for mention in corpus.mentions] == [("D1", "D9"), None]
    assert [str(item.metadata.get("year")) for item in (corpus.mentions[1], corpus[1])] == ["7", "8"]


def test_a_damaged_or_empty_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    pd.DataFrame({"id": ["d1", "d1"], "text": ["flu", "cold"]}).to_parquet(path)
    with pytest.raises(DataError, match=r"docs\.parquet, row 1, 'd1': this id is already taken"):
        read_documents(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"docs\.parquet: the Parquet file is damaged \(.*\); write it again"):
        read_documents(path)
    pd.DataFrame({"id": [], "text": []}).to_parquet(path)
    with pytest.raises(DataError, match="no documents in the format parquet"):
        read_documents(path)


def test_an_unknown_compression_is_not_called_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise pa.ArrowNotImplementedError("Support for codec 'lzo' not built")

    pd.DataFrame({"id": ["d1"], "text": ["flu"]}).to_parquet(tmp_path / "docs.parquet")
    monkeypatch.setattr(pq, "ParquetFile", refuse)
    with pytest.raises(
        DataError, match=r"docs\.parquet: pyarrow cannot read .*'lzo' not built\); write it with another"
    ):
        read_documents(tmp_path / "docs.parquet", "parquet")


def test_a_long_cell_is_read_and_the_limit_of_others_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    (tmp_path / "docs.csv").write_text(f"id,text\nd,{'a ' * 200_000}\n")
    assert len(read_documents(tmp_path / "docs.csv")[0].text) == 400_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(("kind", "delimiter"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
def test_columns_may_have_other_names(tmp_path: Path, kind: str, delimiter: str) -> None:
    file = tmp_path / f"kb.{kind}"
    lines = [["Code", "label", "other names", "owner"], ["D1", "flu", "grippe|influenza", "us"]]
    file.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    columns = {"id": "Code", "name": "label", "aliases": "other names"}
    (entity,) = arbo.read_knowledge_base(file, columns=columns)
    assert entity == arbo.Entity("D1", "flu", ("grippe", "influenza"))
    assert entity.metadata == {"owner": "us"}
    with pytest.raises(arbo.DataError, match=r"line 1: there is no column 'code'; the columns are 'Code"):
        arbo.read_knowledge_base(file, columns={**columns, "id": "code"})
    with pytest.raises(arbo.UsageError, match=r"columns are for CSV and TSV, with keys among id, name, .*: alias"):
        arbo.read_knowledge_base(file, columns={**columns, "alias": "owner"})
    (tmp_path / "kb.jsonl").write_text('{"id": "D1", "name": "flu"}')
    with pytest.raises(arbo.UsageError, match="the format is jsonl"):
        arbo.read_knowledge_base(tmp_path / "kb.jsonl", columns=columns)
