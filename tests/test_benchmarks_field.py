"""The protocol of BioSyn, as the benchmark `field` has it."""

import sys
from pathlib import Path

import pytest
from builders import kb_of

import arbo
from arbo.data.documents import Document, Mention

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from library.biosyn import Query, dictionary, ids_of, plain, queries, right, split, written_parts
from library.ranking import Known

KB = kb_of(
    arbo.Entity("D1", "Breast Neoplasms", ("Breast cancer",), alternative_ids=("114480", "OMIM:114480")),
    arbo.Entity("D2", "Ovarian Neoplasms", ("ovarian-cancer",)),
    arbo.Entity("D3", "Familial breast cancer", ("breast, CANCER",)),
)
TEXT = "Breast and ovarian cancer (BOC) runs in families; BOC."


def document(*mentions: tuple[str, tuple[str, ...]]) -> Document:
    found = []
    for number, (text, ids) in enumerate(mentions):
        begin = TEXT.rindex(text)
        found.append(Mention(f"m{number}", "d", ((begin, begin + len(text)),), text, None, ids))
    return Document("d", TEXT, tuple(found))


@pytest.mark.parametrize(
    ("mention", "parts"),
    [
        ("breast and ovarian cancer", ["breast cancer", "ovarian cancer"]),
        ("breast, lung, or the ovarian cancer", ["breast cancer", "lung cancer", "the ovarian cancer"]),
        ("skin or head and neck cancer", ["skin cancer", "head and neck cancer"]),
        ("cancer of both the breast and the ovary", ["cancer of breast", "cancer of ovary"]),
        ("sporadic colon/lung tumours", ["sporadic colon", "sporadic lung tumours"]),
        ("hemorrhagic cystitis", ["hemorrhagic", "cystitis"]),
    ],
    ids=["two", "three", "nested", "of", "slash", "words"],
)
def test_composite_mentions_are_split(mention: str, parts: list[str]) -> None:
    assert split(mention, len(parts)) == parts
    assert split(mention, len(parts) + 7) == [mention]


def test_queries() -> None:
    asked = [("Breast and ovarian cancer", ("D1", "D2")), ("BOC", ("MESH:D1",)), ("families", ("D9",))]
    found = queries([document(*asked, ("runs", ("OMIM:114480", "D2")))], ids_of(KB))
    parts = [("breast cancer", "ovarian cancer"), ("breast and ovarian cancer",), ("runs",)]
    assert [query.parts for query in found] == parts
    assert [set(query.ids) for query in found] == [{"D1", "D2"}, {"D1"}, {"D2"}]
    given = {("d", 0, 25): ["left breast cancer", "ovary"]}
    assert queries([document(asked[0])], ids_of(KB), given)[0].parts == ("left breast cancer", "ovary")


def test_a_name_is_right_for_each_entity_that_has_it() -> None:
    annotated = queries([document(("Breast and ovarian cancer", ("D1", "D2")), ("BOC", ("D2",)))], ids_of(KB))
    names = dictionary(KB, annotated)
    assert names["breast cancer"] == {"D1", "114480", "D3"}
    assert names["breast cancer ovarian cancer"] == {"D1", "D2"}
    assert plain("Ovarian-Cancer, ") in names
    query = annotated[0]
    assert right(query, [names["breast cancer"], names["ovarian cancer"]])
    assert not right(query, [names["breast cancer"], names["familial breast cancer"]])
    known = Known.of(
        KB, names, [*annotated, Query(query.document, query.mention, ("breast cancer",), frozenset({"D3"}))]
    )
    assert known.rows("breast cancer") == {0, 2}
    assert [known.most_annotated(name) for name in ("breast cancer", "breast neoplasms", "?")] == [2, 0, -1]


def test_the_parts_that_pubtator_gives(tmp_path: Path) -> None:
    rows = [
        "1|t|Vision and hearing loss",
        "1\t0\t23\tVision and hearing loss\tDisease\tD1|D2\tvision loss|hearing loss",
        "1\t0\t6\tVision\tDisease\tD1|D2\tvision",
        "1\t0\t6\tVision\tChemical\tD1\tvision",
        "1\t0\t6\tVision\tDisease\tD1",
    ]
    (tmp_path / "some.txt").write_text("\n".join(rows), "utf-8")
    assert written_parts(tmp_path / "some.txt", "Disease") == {("1", 0, 23): ["vision loss", "hearing loss"]}
