"""The gap of a knowledge base: its estimate, the threshold that follows it, and what leaves it out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kb_of
from conftest import Run
from hypothesis import given, settings, strategies as st

import arbo
from arbo.engine import Neighbors
from arbo.explore.report import Payload
from arbo.linking.config import _share_of_twins, estimated_gaps

NAMES = [f"{first}{second}" for first in ("ba", "ke", "mo", "tu", "zi") for second in ("dran", "fel", "gor", "lun")]
WORDS = [f"{one} {other}" for one in NAMES for other in NAMES if one != other]


def base_of(names: list[str], *aliases: str) -> arbo.KnowledgeBase:
    return arbo.KnowledgeBase(arbo.Entity(f"E{i}", name, aliases=aliases[i : i + 1]) for i, name in enumerate(names))


def test_twins_are_aliases_with_the_words_of_another_name() -> None:
    kb = kb_of(
        arbo.Entity("A", "breast cancer", aliases=("Cancer, Breast", "mammary carcinoma")),
        arbo.Entity("B", "influenza", aliases=("flu",)),
        arbo.Entity("C", "cold"),
    )
    assert _share_of_twins(kb) == (1 / 2 + 0) / 2
    assert _share_of_twins(arbo.KnowledgeBase([*kb][::-1])) == _share_of_twins(kb)
    assert _share_of_twins(base_of(["flu"])) == 0


@pytest.mark.parametrize(("clear", "gap"), [(0.9, 0), (0.53, 0), (0.3, 0.5), (0.07, 1), (0.0, 1)])
def test_the_estimate_falls_with_the_share_of_clear_mentions(clear: float, gap: float) -> None:
    lists = Neighbors(np.zeros((1000, 2), np.int32), np.tile(np.float32([0.2, 0.4]), (1000, 1)))
    lists.dissimilarity[: int(1000 * clear), 0] = 0.1
    kb, types, names = base_of(["flu"]), [None] * 1000, (WORDS * 3)[:1000]
    assert estimated_gaps(lists, names, types, kb) == {"": pytest.approx(gap, abs=0.01)}
    assert estimated_gaps(lists.first(1), names, types, kb) == {}


def test_homonyms_are_no_gap_and_a_second_entity_is_needed() -> None:
    twice = arbo.KnowledgeBase(arbo.Entity(f"E{i}", word) for i, word in enumerate([*WORDS, *WORDS]))
    assert arbo.Linker(twice).link(WORDS).manifest["gap"] == 0
    assert arbo.Linker(base_of(["one"])).link(WORDS).manifest["gap"] is None


def test_another_knowledge_base_is_estimated_again() -> None:
    linkers = [arbo.Linker(base_of(WORDS[:n])) for n in (40, 380)]
    before = linkers[0].link(WORDS)
    after = linkers[1].add(before, other_kb=True)
    assert before.manifest["gap"] != after.manifest["gap"] == linkers[1].refit(after).manifest["gap"]


def test_entities_that_are_removed_are_missed() -> None:
    documents, kb = arbo.load_sample()
    gaps = [
        arbo.Linker(arbo.KnowledgeBase(entity for i, entity in enumerate(kb) if i % 10 >= gone))
        .link(documents)
        .manifest["gap"]
        for gone in (0, 3, 6)
    ]
    assert gaps[0] < 0.05 < gaps[1] < gaps[2]


def test_few_mentions_few_names_and_settings_leave_the_constant() -> None:
    kb = base_of(WORDS)
    cases: list[tuple[list[str], dict[str, Any], float]] = [
        (WORDS[:199], {}, 0.35),
        (WORDS[:50] * 10, {}, 0.35),
        (WORDS, {"entity_threshold": 0.4}, 0.4),
        (WORDS, {"per_document": True}, 0.35),
        (["unlike all"] * 100 + WORDS[:150], {"kb_complete": True}, 0.55),
    ]
    for documents, config, expected in cases:
        manifest = arbo.Linker(kb, config=config).link(documents).manifest
        assert manifest["threshold"]["entity"] == expected
        assert manifest["gap"] == (0 if config.get("kb_complete") else None)


def test_types_have_gaps_and_thresholds_of_their_own() -> None:
    named = [(type_, word[::step]) for word in WORDS for type_, step in (("A", 1), ("B", -1))]  # B is unlike all names
    rows = [
        {"id": f"d{i}", "text": word, "mentions": [{"id": f"m{i}", "spans": [[0, len(word)]], "type": type_}]}
        for i, (type_, word) in enumerate(named)
    ]
    linker = arbo.Linker(base_of(WORDS))
    result = linker.link(rows)
    gaps, limits = result.manifest["gaps"], result.manifest["limits"]
    assert [*gaps] == ["", "A", "B"]
    assert gaps["A"] < gaps[""] < gaps["B"]
    assert limits["B"] < limits["A"] == result.manifest["threshold"]["entity"]
    direct = [link for link in result.links if link.parent is not None and not link.parent_is_mention]
    assert all(link.step <= limits[link.mention.type] + 1e-6 for link in direct)
    assert linker.link(rows[::2]).manifest["gaps"] == {"": gaps["A"]}
    more = [{"id": "more", "text": "flu", "mentions": [{"spans": [[0, 3]], "type": "B"}]}]
    grown = linker.add(result, more)
    assert all(grown.manifest[name] == result.manifest[name] for name in ("gaps", "limits", "confidence"))
    assert linker.refit(grown).link_table == grown.link_table
    (line,) = result.choices
    assert f"of type B, {gaps['B']:.0%} and {limits['B']:.2f}" in line


@settings(max_examples=8, deadline=None)
@given(st.integers(200, 300), st.data())
def test_growth_keeps_the_estimate_of_the_run(cut: int, data: st.DataObject) -> None:
    kb = base_of([word for i, word in enumerate(WORDS) if i % 3])
    rows = [{"id": f"d{i}", "text": word, "mentions": [{"spans": [[0, len(word)]]}]} for i, word in enumerate(WORDS)]
    linker = arbo.Linker(kb)
    before = linker.link(rows[:cut])
    grown = linker.add(before, rows[cut : cut + data.draw(st.integers(1, 80))])
    again = linker.refit(grown)
    assert grown.manifest["gap"] == again.manifest["gap"] == before.manifest["gap"]
    assert grown.link_table == again.link_table


def test_the_order_of_documents_does_not_matter() -> None:
    order = np.random.default_rng(0).permutation(len(WORDS)).tolist()
    rows = [{"id": f"d{i}", "text": word, "mentions": [{"spans": [[0, len(word)]]}]} for i, word in enumerate(WORDS)]
    kb = base_of(WORDS[::2])
    one, other = (arbo.Linker(kb).link(some).manifest["gap"] for some in (rows, [rows[i] for i in order]))
    assert one == other


def test_the_command_line_says_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\n".join(WORDS))
    base_of(WORDS[::2]).to_jsonl(tmp_path / "kb.jsonl")
    done = run("link", tmp_path / "names.txt", "--kb", tmp_path / "kb.jsonl", "--out", tmp_path / "run")
    (line,) = Payload(arbo.Result.load(tmp_path / "run"), "run").overview["choices"]
    assert line.startswith("estimate: the knowledge base lacks the entity of hardly any mention")
    assert line in done.told
