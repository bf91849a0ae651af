from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_lines

from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.readers import read_knowledge_base


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., KnowledgeBase]:
    """Read lines as a table."""

    def read(*lines: str, end: str = "\n") -> KnowledgeBase:
        return KnowledgeBase.from_tsv(save_lines(tmp_path / "kb.tsv", *lines, end=end))

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
        ("D2", "'D2': the line has 1 tab-separated columns; write 2 to 4"),
        ("D2\ta\tb\tc\td", "the line has 5"),
        ("\tcold", "the entity id is empty"),
        ("D2\t ", "'D2': the entity's name is empty"),
        ("D1\tcold", r"'D1': this id is already taken, with different content \(.*, line 1\)"),
    ],
)
def test_a_malformed_line_is_named(read: Callable[..., KnowledgeBase], line: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read("D1\tflu", line)
    assert caught.value.line == 2


def test_the_real_table_has_its_published_count(shared: Callable[[str], Path]) -> None:
    kb = read_knowledge_base(shared("data/mesh/mesh_descriptors.tsv"), "tsv")
    assert (len(kb), len(kb.names().names), kb.notes) == (29_054, 29_054, {})
    assert kb["D019305"].name == "Epilepsy, Rolandic"
