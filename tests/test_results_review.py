"""The review of a run: what is asked first, and the file of corrections that grows."""

import io
import json
import os
import resource
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from builders import kb_of, linker, passage
from conftest import Run, Sample

import arbo
from arbo.corrections import review as review_module
from arbo.corrections.review import Queue, Review, doubts, names_of, sure
from arbo.pipeline.saved_run import search_of
from arbo.text.names import normalize_name


def name_of(link: arbo.Link, result: arbo.Result) -> tuple[str, str | None, str]:
    domain = result.mention_table["domain"][result.row_of[link.mention.id]].as_py()
    return normalize_name(link.name), link.mention.type, domain


def test_each_name_is_asked_once_with_the_number_of_its_mentions(result: arbo.Result) -> None:
    names, codes = [name_of(link, result) for link in result.links], names_of(result).tolist()
    assert [names.index(name) for name in names] == [codes.index(code) for code in codes]
    queue, count = Queue.of(result), Counter(names)
    is_first, homes = queue.twins > 0, result.document_rows[queue.rows]
    assert (homes[1:] != homes[:-1])[~is_first[1:]].all()  # another document comes second
    assert all(sure(result)[queue.rows[~is_first]])
    rows, twins, own_doubts = (values[is_first] for values in queue[:3])
    asked = [names[row] for row in rows]
    assert (sorted(map(str, asked)), [count[name] for name in asked]) == (sorted(map(str, count)), twins.tolist())
    assert (np.diff(twins * own_doubts) <= 0).all()  # the most useful name comes first
    doubt, names = doubts(result), names_of(result)
    for row, own in zip(rows, own_doubts, strict=True):
        assert own == doubt[names == names[row]].max() == doubt[row]


def test_without_confidence_the_doubt_of_a_link_is_the_share_of_surer_ones(result: arbo.Result) -> None:
    result = replace(result, link_rows=result.link_table.drop_columns(["confidence"]))
    linked = [link for link in result.links if link.entity is not None]
    rows = [result.row_of[link.mention.id] for link in linked]

    def above(value: float, values: list[float]) -> float:
        return (sum(other > value for other in values) + values.count(value) / 2) / len(values)

    scores = [float(link.score or 0) for link in linked]
    margins = [float("inf") if link.margin is None else link.margin for link in linked]
    for score, margin, found in zip(scores, margins, doubts(result)[rows], strict=True):
        assert found == pytest.approx(above(score, scores) * above(margin, margins), abs=1e-9)


def test_a_decision_is_doubted_by_its_confidence(sample: Sample, result: arbo.Result) -> None:
    documents, kb = sample
    tuned = arbo.Linker(kb).tune(documents[:60]).link(documents)
    for run in (tuned, result):
        for link, doubt in zip(run.links, doubts(run), strict=True):
            factor = 1 if link.entity else 1 + np.log2(len(run.cluster_of(link).mentions))
            assert doubt == pytest.approx((1 - (0.5 if link.confidence is None else link.confidence)) * factor)


def test_the_errors_that_are_left_follow_from_confidence(result: arbo.Result, tmp_path: Path) -> None:
    ongoing, names = Review(result, tmp_path / "c.jsonl", ()), names_of(result)
    confidence = np.array([link.confidence for link in result.links], float)
    assert ongoing.errors_left == (pytest.approx((1 - confidence).sum()), len(names))
    question = ongoing.present
    ongoing.answer(question.link, ongoing.corrections(question.link, "accept"))
    left = names != names[result.row_of[question.link.mention.id]]
    assert ongoing.errors_left == (pytest.approx((1 - confidence[left]).sum()), left.sum())


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, result: arbo.Result, tmp_path: Path, run: Run) -> Any:
    """Review the run by typing keys; return the outcome and the corrections."""
    result.save(tmp_path / "run")

    def review(keys: str, *options: object) -> tuple[Any, list[dict[str, Any]]]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(keys))
        outcome, file = run("review", tmp_path / "run", *options), tmp_path / "run.corrections.jsonl"
        return outcome, [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    return review


def asked(result: arbo.Result, place: int, decided: Any = ()) -> arbo.Link:
    return result.links[int(Queue.of(result, decided).rows[place])]


def test_each_key_writes_its_correction(typed: Any, result: arbo.Result) -> None:
    outcome, lines = typed("an2e new name\ns", "--author", "ann", "--limit", 5)
    assert outcome.code == 0, outcome.err
    wanted = [{"entity": one} for one in (asked(result, 0).entity, None, asked(result, 2).candidates[1][0])]
    for place, (line, want) in enumerate(zip(lines, [*wanted, {"new": "new name"}], strict=True)):
        assert line.pop("date")
        assert line == {"mention": asked(result, place).mention.id, "author": "ann", **want}
    assert "run.corrections.jsonl: 4; the same command" in outcome.out.replace("\n", "")
    assert "next: arbo add" in outcome.out
    _, more = typed("a")  # it goes on where it ended
    assert more[4]["mention"] == asked(result, 0, [line["mention"] for line in lines]).mention.id


def test_undo_takes_the_last_correction_back_and_asks_again(typed: Any, result: arbo.Result) -> None:
    outcome, lines = typed("uanunq")
    one, other = asked(result, 0), asked(result, 1)
    kept = [(one.mention.id, one.entity), (other.mention.id, None)]
    assert ([(line["mention"], line["entity"]) for line in lines], outcome.out.count(f": {other.name}\n")) == (kept, 2)


def test_unknown_keys_and_ids_write_nothing_and_say_why(typed: Any, result: arbo.Result) -> None:
    outcome, lines = typed("?Z0\x1b\x00=nobody\n")
    assert (outcome.code, lines) == (0, [])
    for words in ("'?': unknown key", "'0': no entity above has this number", "no other mention has the id nobody"):
        assert words in outcome.out
    own, other = (asked(result, place).mention.id for place in (0, 5))
    outcome, (line,) = typed(f"!nobody\n!{own}\n!{other}\nq")  # one is different from another
    assert line["different"] == [own, other]
    assert [outcome.out.count(f"no other mention has the id {id_}") for id_ in ("nobody", own)] == [1, 1]


def test_a_dropped_mention_is_not_asked_again_but_others_of_its_name_are(typed: Any, result: arbo.Result) -> None:
    row = next(int(row) for row, twins in zip(*Queue.of(result)[:2], strict=True) if twins > 1)
    place, mention = Queue.of(result).rows.tolist().index(row), result.links[row].mention
    _, (line,) = typed("s" * place + "dq")
    assert line.pop("date")
    assert line == {"document": mention.document_id, "spans": [list(span) for span in mention.spans], "drop": True}
    again = Queue.of(result, (), [mention.id])
    (twin,) = again.rows[names_of(result)[again.rows] == names_of(result)[row]].tolist()
    assert twin != row
    outcome, _ = typed("", "--json", "--limit", 1000)
    ids = [one["link"]["mention"]["id"] for one in outcome.json["questions"]]
    assert ids == [result.links[int(row)].mention.id for row in again.rows]


def test_an_interrupt_says_what_is_kept(typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Keyboard(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            if not (key := super().read(size)):
                raise KeyboardInterrupt
            return key

    monkeypatch.setattr(io, "StringIO", Keyboard)
    outcome, lines = typed("a")
    assert (outcome.code, len(lines)) == (130, 1)
    assert f"answers written to {tmp_path / 'run.corrections.jsonl'}: 1;" in outcome.out.replace("\n", "")


def test_what_corrections_decided_is_not_asked(sample: Sample, run: Run, tmp_path: Path, result: arbo.Result) -> None:
    first = asked(result, 0)
    linker(sample[1]).link(sample[0], [{"mention": first.mention.id, "entity": first.entity}]).save(tmp_path / "run2")
    questions = run("review", tmp_path / "run2", "--json", "--limit", 1000).json["questions"]
    asked_ids = {one["link"]["mention"]["id"] for one in questions}
    names = [name_of(link, result) for link in result.links if link.mention.id in asked_ids]
    assert name_of(first, result) not in names


def test_of_a_name_with_a_wrong_link_the_other_mentions_are_asked(tmp_path: Path, run: Run) -> None:
    own = linker(arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp")]))
    documents = [{"id": id_, "text": "marsh fever", "mentions": [{"id": id_, "spans": [[0, 11]]}]} for id_ in "ab"]
    line = {"mention": "a", "not": "E1"}
    (tmp_path / "run.corrections.jsonl").write_text(json.dumps(line) + "\n")
    own.link(documents).save(tmp_path / "run")
    own.link(documents, [line]).save(tmp_path / "run2")
    for name in ("run", "run2"):
        questions = run("review", tmp_path / name, "--json").json["questions"]
        assert [one["link"]["mention"]["id"] for one in questions] == ["b"]
    own.link(documents, [line, {"mention": "a", "entity": None}]).save(tmp_path / "run2")
    assert run("review", tmp_path / "run2", "--json").json["questions"] == []


def test_a_search_offers_its_entities(typed: Any, result: arbo.Result, sample: Sample) -> None:
    entity = sample[1].entities[3]
    _, lines = typed(f"/{entity.name}\n1")
    found = sample[1][lines[0]["entity"]]
    assert entity.name in (found.name, *found.aliases)


def test_a_search_knows_ids_before_names_and_hides_what_is_far() -> None:
    kb = kb_of(
        arbo.Entity("D061325", "hereditary breast and ovarian cancer syndrome", alternative_ids=("MESH:C535",)),
        arbo.Entity("OMIM:114480", "breast cancer", ("mamma carcinoma",), "A growth\nof the breast."),
        arbo.Entity("DO:114480", "cataract, central saccular"),
    )
    run = arbo.Linker(kb).link(["breast cancer"])
    wanted = {"omim:114480": ["OMIM:114480"], **{word: ["D061325"] for word in ("d061325", "MESH:d061325", "C535")}}
    wanted |= {"114480": ["OMIM:114480", "DO:114480"], "breast cancer": ["OMIM:114480", "D061325"], "zzz 99": []}
    for words, ids in wanted.items():
        found = search_of(run, kb)(words, run.links[0])
        assert [one.id for one in found] == ids
        assert {one.about for one in found if one.id == "OMIM:114480"} <= {"mamma carcinoma · A growth of the breast."}


def test_all_of_a_name_are_dropped_and_taken_back_at_once(typed: Any, result: arbo.Result) -> None:
    queue, names = Queue.of(result), names_of(result)
    place = next(place for place, twins in enumerate(queue.twins) if twins > 1)
    same = [result.links[int(row)].mention for row in np.flatnonzero(names == names[queue.rows[place]])]
    outcome, lines = typed("s" * place + "tDuDq")
    assert result.text_of(same[0].document_id) in outcome.out
    dropped = [(line["document"], line["spans"]) for line in lines if line["drop"]]
    assert dropped == [(one.document_id, [list(span) for span in one.spans]) for one in same]
    assert outcome.out.count(f": {asked(result, place + 1).name}\n") == 2


def test_undo_takes_no_line_of_others(result: arbo.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "corrections.jsonl"
    one, other, real = Review(result, file, ()), Review(result, file, ()), open

    def opened(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        stream = real(*given, **options)
        other.answer(result.links[0], [{"mention": "b", "entity": None}])
        return stream

    monkeypatch.setattr(review_module, "open", opened, raising=False)
    one.answer(result.links[0], [{"mention": "a", "entity": None}])
    one.undo()
    assert [json.loads(line)["mention"] for line in file.read_text("utf-8").splitlines()] == ["b"]
    one.answer(result.links[0], [{"mention": "a", "entity": None}])
    file.write_text(changed := file.read_text("utf-8").replace('"a"', '"c"'))
    with pytest.raises(arbo.UsageError, match="somebody else wrote"):
        one.undo()
    assert file.read_text("utf-8") == changed


def test_a_full_disk_leaves_no_half_line(result: arbo.Result, tmp_path: Path) -> None:
    file = tmp_path / "corrections.jsonl"
    own = Review(result, file, ())
    own.answer(result.links[0], [{"mention": "a", "entity": None}])
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(arbo.UsageError, match=r"cannot write .*corrections\.jsonl: no space left"):
            own.answer(result.links[0], [{"mention": "b", "entity": None}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == before
    own.undo()


def test_a_line_that_failed_can_be_undone(result: arbo.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    review = Review(result, tmp_path / "corrections.jsonl", ())
    review.skip()
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(5, "Input/output error")))
    with pytest.raises(arbo.UsageError, match="cannot write"):
        review.answer(asked(result, 1), [{"mention": "a", "entity": None}])
    assert review.place == 1
    review.undo()
    assert (tmp_path / "corrections.jsonl").read_bytes() == b""


def test_what_was_decided_out_of_turn_is_not_asked(result: arbo.Result, tmp_path: Path) -> None:
    queue, names = Queue.of(result), names_of(result)
    later = next(place for place, twins in enumerate(queue.twins) if place and twins > 1)
    row = int(queue.rows[later])
    own, twin = (result.links[at] for at in (row, next(at for at in np.flatnonzero(names == names[row]) if at != row)))
    review = Review(result, tmp_path / "corrections.jsonl", ())
    for link, line, asks in (
        (twin, {"mention": twin.mention.id, "entity": None}, False),
        (own, {"mention": own.mention.id, "not": own.entity}, False),
        (twin, {"mention": twin.mention.id, "not": twin.entity}, True),
    ):
        review.place = 0
        review.answer(link, [line])
        for _ in range(later):
            review.skip()
        assert (review.place == later) == asks
        review.undo()
        for _ in range(later):
            review.skip()
        assert review.place == later


def test_an_answer_that_keeps_a_link_is_one_for_all_types_of_a_name(tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "flu", types=("A",)), arbo.Entity("E2", "kelp")])
    spans = [{"id": str(at), "spans": [[4 * at, 4 * at + 3]], "type": type_} for at, type_ in enumerate("ABABC")]
    documents = [{"id": "d", "text": "flu " * 5, "mentions": spans}]

    def reviewed(*lines: Any, **config: Any) -> Review:
        return Review(linker(kb, **config).link(documents, lines), tmp_path / "c.jsonl", ())

    review = reviewed()
    first, second, third, *_ = review.run.links
    for answer, value, ids in (("accept", None, "014"), ("candidate", "E1", "014"), ("candidate", "E2", "0")):
        lines = review.corrections(first, answer, value)
        assert lines == [{"mention": id_, "entity": value or "E1"} for id_ in ids]
        review.answer(first, lines)
        assert (review.present is None) == (len(ids) > 1)
        review.undo()
    assert len(review.corrections(first, "not")) == len(review.corrections(first, "same", "1")) == 1
    review.answer(second, review.corrections(second, "nil"))
    assert [line["mention"] for line in review.corrections(third, "accept")] == ["2", "4"]
    apart = reviewed(map_types="A=A"), reviewed(spread="none"), reviewed(per_document=True)
    for one, n in zip((*apart, reviewed({"mention": "1", "entity": "E2"})), (1, 1, 1, 2), strict=True):
        assert len(one.corrections(one.run.links[0], "accept")) == n, one.run.manifest["config"]


def test_of_discovered_entities_pronouns_are_asked_one_by_one_and_accepting_joins_mentions() -> None:
    pronouns = arbo.Linker(config={"treat_as": "text"}).discover(["she", "she", "Ada", "Ada"])
    assert Queue.of(pronouns).twins.tolist() == [2, 1, 1]
    found = arbo.Linker().discover(["Paris", "Paris", "Rome"])
    review, ids = Review(found, Path("unused"), ()), [link.mention.id for link in found.links]
    assert review.accept(found.links[0]) == {"same": ids[:2]}
    assert review.accept(found.links[2]) == {"mention": ids[2], "new": f"Rome ({ids[2]})"}


def test_mentions_at_random_estimate_the_accuracy(typed: Any, result: arbo.Result, tmp_path: Path) -> None:
    outcome, lines = typed("aaanq", "--random")
    drawn = np.random.default_rng(0).permutation(len(result.links))
    assert [line["mention"] for line in lines] == [result.links[int(row)].mention.id for row in drawn[:4]]
    right = [line["entity"] == result.link_of(line["mention"]).entity for line in lines]
    assert "the accuracy of the decisions, by those drawn at random, is" in outcome.out
    assert "accuracy" not in typed("q")[0].out  # other answers are no sample
    sitting = Review(result, tmp_path / "run.corrections.jsonl", {line["mention"] for line in lines}, at_random=True)
    low, high = sitting.rates["accuracy"]
    assert low < sum(right) / 4 < high
    later, asked_now = Review(result, sitting.file, sitting.decided), sitting.present
    assert asked_now is not None
    assert asked_now.link.mention.id == result.links[int(drawn[4])].mention.id
    other = result.links[int(drawn[9])]
    later.answer(other, later.corrections(other, "nil"))  # nobody drew it yet
    assert sitting.rates["accuracy"] == (low, high)
    drop = result.links[int(drawn[4])]
    later.answer(drop, later.corrections(drop, "drop"))
    assert sitting.rates["accuracy"][1] < high


def test_an_answer_is_the_first_choice_for_its_name_in_another_document(typed: Any, tmp_path: Path, run: Run) -> None:
    own = linker(arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "salt marsh fever")]))
    own.link([passage(id_, "marsh fever", "marsh fever") for id_ in "ab"]).save(tmp_path / "run")
    for sittings in (["21"], ["2q", "2", ""]):  # the second question comes after a new start, too
        (tmp_path / "run.corrections.jsonl").unlink(missing_ok=True)
        *_, (outcome, lines) = [typed(keys, "--limit", 1) for keys in sittings]  # the limit counts names
        assert [(line["mention"][0], line["entity"]) for line in lines] == [("a", "E2"), ("b", "E2")], outcome.out
