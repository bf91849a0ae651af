"""Real corpora and knowledge bases have their published counts."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obonet
import pytest

from arbo.formats import read_documents, read_knowledge_base

Shared = Callable[[str], Path]

SEVERAL, SPLIT, NIL, BARE = "several ids", "several spans", "NIL", "not annotated"
"""Counts of mentions; the others are notes."""
SEVENTH = "seventh columns ignored"
DUPLICATE = "duplicate documents dropped"


def cdr(nil: int, several: int, seventh: int) -> dict[str, int]:
    return {NIL: nil, SEVERAL: several, SEVENTH: seventh}


CORPORA: list[tuple[str, str, int, int, int, dict[str, int]]] = [
    # Of the 5,145 mentions 11 are of an abstract that is there twice.
    ("ncbi_disease/NCBItrainset_corpus.txt", "pubtator", 592, 5134, 0, {
        SEVERAL: 115, "mention texts differing from the document in white space": 1, DUPLICATE: 1}),
    ("ncbi_disease/NCBIdevelopset_corpus.txt", "pubtator", 100, 787, 0, {SEVERAL: 30}),
    ("ncbi_disease/NCBItestset_corpus.txt", "pubtator", 100, 960, 0, {SEVERAL: 15}),
    ("bc5cdr/CDR_TrainingSet.PubTator.txt", "pubtator", 500, 9385, 0, cdr(76, 97, 107)),
    ("bc5cdr/CDR_DevelopmentSet.PubTator.txt", "pubtator", 500, 9591, 0, cdr(59, 99, 89)),
    ("bc5cdr/CDR_TestSet.PubTator.txt", "pubtator", 500, 9809, 0, cdr(91, 75, 57)),
    ("medmentions_sample/med_mentions_3docs.pubtator.txt", "pubtator", 3, 115, 0, {"": 0}),
    ("craft/train", "brat", 60, 60_384, 0, {SPLIT: 1156}),
    ("craft/dev", "brat", 7, 9710, 0, {SPLIT: 154}),
    ("quaero/train/EMEA", "brat", 11, 2695, 0, {SPLIT: 27, BARE: 4, SEVERAL: 11}),
    ("quaero/test/EMEA", "brat", 15, 2204, 0, {SPLIT: 42, BARE: 11}),
    ("quaero/train/MEDLINE.tar.gz", "brat", 833, 2994, 0, {SPLIT: 13,
     BARE: 15, SEVERAL: 12}),
    ("quaero/dev/MEDLINE.tar.gz", "brat", 832, 2977, 0, {SPLIT: 21, BARE: 2, SEVERAL: 1}),
    ("gsc_plus/GSCplus_dev_gold.tsv", "gsc", 22, 173, 89, {"": 0}),
    ("gsc_plus/GSCplus_test_gold.tsv", "gsc", 206, 1949, 405, {"": 0}),
    ("ecbplus/ECB_Train_corpus.txt", "ecbplus", 574, 4758, 1286, {"": 0}),
    ("ecbplus/ECB_Dev_corpus.txt", "ecbplus", 196, 1476, 330, {SPLIT: 1}),
    ("ecbplus/ECB_Test_corpus.txt", "ecbplus", 206, 2055, 608, {SPLIT: 1}),
    ("ecbplus/ECB_Train_corpus.txt", "ecbplus-events", 574, 3808, 1527, {SPLIT: 33}),
    ("gum/GUM_train_corpus.txt", "ecbplus", 84, 22_330, 1691, {"": 0}),
]  # fmt: skip
"""Path, format, documents, mentions, distinct gold ids (0: not published), some of the notes or, with "": 0, all."""

CRAFT = {
    "craft/train": "UBERON 10771 773 CL 3462 219 SO 7700 176 MOP 221 16 GO_MF 325 4 PR 14036 833 GO_BP 7625 532 "
    "CHEBI 4213 458 GO_CC 3513 202 NCBITaxon 6683 129 MONDO 1835 226",
    "craft/dev": "UBERON 1498 174 CL 581 60 SO 1097 64 MOP 19 6 GO_MF 50 2 PR 3002 189 GO_BP 1655 162 CHEBI 335 94 "
    "GO_CC 562 47 NCBITaxon 679 42 MONDO 232 28",
}
"""Types, each with its mentions and its distinct gold ids."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form", "documents", "mentions", "distinct", "notes"), CORPORA)
def test_corpora_have_their_published_counts(
    shared: Shared, tmp_path: Path, name: str, form: str, documents: int, mentions: int, distinct: int, notes: Any
) -> None:
    path = shared(f"data/{name}")
    if name.endswith(".tar.gz"):
        shutil.unpack_archive(path, tmp_path, filter="data")
        path = next(tmp_path.rglob("*.ann")).parent
    corpus = read_documents(path, form)
    assert (len(corpus), len(corpus.mentions)) == (documents, mentions)
    assert len({m.id for m in corpus.mentions}) == mentions
    if distinct:
        assert len({m.gold for m in corpus.mentions if m.gold}) == distinct
    golds = [m.gold for m in corpus.mentions]
    counted = {SEVERAL: sum(len(gold or ()) > 1 for gold in golds), NIL: golds.count(()), BARE: golds.count(None)}
    counted |= {SPLIT: sum(len(m.spans) > 1 for m in corpus.mentions), **corpus.notes}
    if form == "brat":
        assert {key: counted[key] for key in notes} == notes
        assert "malformed lines skipped" not in corpus.notes
        if name in CRAFT:
            sizes = Counter(m.type for m in corpus.mentions)
            clusters = Counter(kind for kind, _ in {(m.type, m.gold) for m in corpus.mentions})
            found = {f"{kind} {sizes[kind]} {clusters[kind]}" for kind in sizes}
            assert found == {*re.findall(r"\w+ \d+ \d+", CRAFT[name])}
    else:
        counted.pop(BARE)
        assert {key: count for key, count in counted.items() if count} == {k: n for k, n in notes.items() if k}


HIPE = """
newseye/de dev 12 539 420 119 191 0 1 0 | newseye/de dev2 12 882 407 474 235 0 0 0
newseye/fi train 24 2146 1281 865 536 2 3 0 | newseye/fi dev 24 223 133 90 89 0 0 0
newseye/sv train 21 2140 1447 693 723 0 1 0 | newseye/sv dev 21 266 199 67 118 0 0 0
sonar/de dev 10 654 507 147 287 0 0 0 | sonar/de test 10 471 314 157 191 0 0 0
ajmc/en train 59 1781 998 28 226 0 0 0 | ajmc/en dev 14 416 223 7 102 0 0 0
ajmc/en test 13 348 174 9 71 0 0 0 | ajmc/de train 76 1738 839 16 195 0 0 1
ajmc/fr train 72 1621 894 16 186 0 0 0 | ajmc/fr dev 17 391 204 10 68 0 0 0
ajmc/fr test 15 360 207 10 92 0 0 0
"""
"""Documents, mentions, linked, NIL and distinct links, then mentions beginning with an I- tag (linked, NIL, neither),
which the published counts leave out. One document of ajmc/en train is there twice, with 42 mentions (22 linked, 2 NIL).
"""


@pytest.mark.slow
@pytest.mark.parametrize("row", [row.strip() for line in HIPE.split("\n") for row in line.split("|") if row])
def test_hipe_has_its_published_counts(shared: Shared, row: str) -> None:
    part, split, *numbers = row.split()
    documents, mentions, linked, nil, distinct, *inside = map(int, numbers)
    collection, language = part.split("/")
    file = f"data/hipe2022/{part}/HIPE-2022-v2.1-{collection}-{split}-{language}.tsv.gz"
    corpus = read_documents(shared(file), "hipe")
    golds = [m.gold for m in corpus.mentions]
    assert (len(corpus), len(golds)) == (documents, mentions + sum(inside))
    assert (sum(bool(gold) for gold in golds), golds.count(())) == (linked + inside[0], nil + inside[1])
    assert len({gold for gold in golds if gold}) == distinct
    assert corpus.notes.get("mentions beginning with an I- tag", 0) == sum(inside)
    assert corpus.notes.get(DUPLICATE, 0) == (row.startswith("ajmc/en train"))


def test_medic_and_mesh_have_their_published_counts(shared: Shared) -> None:
    medic = read_knowledge_base(shared("data/medic/medic_06Jul2012.txt"), "medic")
    assert (len(medic), len(medic.names().names)) == (11_915, 76_237)
    assert sum(1 + len(entity.aliases) for entity in medic) == 76_237
    assert medic.notes == {"alternative ids equal to another entity's own id ignored": 1}
    assert medic["OMIM:260350"].id == "260350"
    mesh = read_knowledge_base(shared("data/mesh/mesh_descriptors.tsv"), "tsv")
    assert (len(mesh), len(mesh.names().names), mesh.notes) == (29_054, 29_054, {})
    assert mesh["D019305"].name == "Epilepsy, Rolandic"


def unescaped(text: str) -> str:
    return " ".join(re.sub(r"\\(.)", r"\1", text.replace(r"\n", " ")).split())


def quoted(text: str) -> str:
    return unescaped(re.split(r'(?<!\\)"', text)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "counts", "same_as_obonet"),
    [
        ("craft/ontologies/UBERON", (13_080, 994, 37_374, 10_586, 115), False),
        ("craft/ontologies/CL", (2_068, 96, 2_074, 1_706, 3), True),
        ("craft/ontologies/SO", (2_179, 204, 3_599, 1_953, 56), True),
        ("craft/ontologies/MOP", (3_630, 0, 692, 3_540, 0), True),
        ("disease_ontology/HumanDO_2015-11-11", (6_812, 2_371, 13_029, 2_618, 0), True),
        ("gsc_plus/hp_2013-11-30", (10_223, 44, 6_447, 6_941, 0), False),
    ],
)
def test_ontologies_have_published_counts(shared: Shared, name: str, counts: Any, same_as_obonet: bool) -> None:
    """Terms, obsolete terms, synonyms, definitions, and obsolete terms with a replacement."""
    path = shared(f"data/{name}.obo.gz")
    kb = read_knowledge_base(path)
    synonyms, definitions = sum(len(one.aliases) for one in kb), sum(one.definition is not None for one in kb)
    notes = "obsolete terms ignored", "obsolete terms mapped to their replacement"
    obsolete, replaced = (kb.notes.get(note, 0) for note in notes)
    assert (len(kb), obsolete, synonyms, definitions, replaced) == counts
    other = {*kb.notes} - {*notes}
    counted = {"ids cut at a blank", "stanzas other than [Term] left out"}
    assert other <= {"alternative ids equal to another entity's own id ignored", *counted}
    if name.startswith("disease"):
        xrefs = Counter(xref.partition(":")[0] for xref in {xref for entity in kb for xref in entity.xrefs})
        assert (xrefs["MSH"], xrefs["UMLS_CUI"]) == (2_656, 6_418)
    if not same_as_obonet:
        return
    nodes = {id_: data for id_, data in obonet.read_obo(str(path)).nodes(data=True) if data}
    assert set(nodes) == {entity.id for entity in kb}
    for entity in kb:
        data = nodes[entity.id]
        assert entity.name == unescaped(data["name"])
        own = [value for tag, values in data.items() if tag.endswith("synonym") for value in values]
        assert entity.aliases == tuple(map(quoted, own))
        assert " ".join((entity.definition or "").split()) == quoted(data.get("def", '""'))
        assert entity.xrefs == tuple(dict.fromkeys(unescaped(raw).split(" ")[0] for raw in data.get("xref", ())))
        assert set(data.get("alt_id", ())) <= set(entity.alternative_ids)
