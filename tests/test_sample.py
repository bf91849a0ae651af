"""The embedded sample collection has the form and the variety that the demo and the other tests count on."""

import json
import re
from collections import Counter, defaultdict
from itertools import combinations, pairwise
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[1] / "arbo" / "sample"
TYPES = {"Species", "Disease", "Place", "Instrument", "Vessel", "Person", "Project", "Organisation"}


def rows(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


DOCUMENTS = rows("documents.jsonl")
ENTITIES = rows("entities.jsonl")
MENTIONS = [(document, mention) for document in DOCUMENTS for mention in document["mentions"]]
CANONICAL = {i: entity["id"] for entity in ENTITIES for i in [entity["id"], *entity["alternative_ids"]]}


def names(entity):
    return [entity["name"], *entity["aliases"]]


def surface(document, mention):
    return " ".join(document["text"][start:end] for start, end in mention["spans"])


def ids_by_name():
    found = defaultdict(set)
    for entity in ENTITIES:
        for name in names(entity):
            found[name.casefold()].add(entity["id"])
    return found


def linkable():
    return [(d, m) for d, m in MENTIONS if any(i in CANONICAL for i in m["entities"])]


def missing():
    """The mentions of each entity that the knowledge base lacks, as (document id, surface)."""
    found = defaultdict(list)
    for document, mention in MENTIONS:
        for i in mention["entities"]:
            if i not in CANONICAL:
                found[i].append((document["id"], surface(document, mention)))
    return found


def is_short_for(short, long):
    """Whether the letters of `short` occur in `long` in this order, the first one at its beginning."""
    letters = iter(long.casefold())
    return long[0].casefold() == short[0].casefold() and all(letter in letters for letter in short.casefold())


def abbreviations():
    """(document id, short form, gold) of each "long form (LF)" whose LF is a mention again further on."""
    for document in DOCUMENTS:
        text = document["text"]
        for mention in document["mentions"]:
            end = mention["spans"][-1][1]
            opening = re.match(r" \(([A-Z]{2,6})\)", text[end:])
            if not opening or not is_short_for(opening[1], surface(document, mention)):
                continue
            for later in document["mentions"]:
                if (
                    later["spans"][0][0] >= end + opening.end()
                    and surface(document, later) == opening[1]
                    and later["entities"] == mention["entities"]
                ):
                    yield document["id"], opening[1], tuple(mention["entities"])
                    break


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d["id"])
def test_document_is_well_formed(document):
    assert set(document) == {"id", "text", "mentions"}
    text = document["text"]
    assert text == text.strip()
    assert 3 <= len(re.findall(r"(?<!\b[A-Z])[.!?](?=\s|$)", text)) <= 7
    assert document["mentions"]
    for mention in document["mentions"]:
        assert set(mention) == {"id", "spans", "type", "entities"}
        assert mention["id"].startswith(document["id"] + "-")
        assert mention["type"] in TYPES
        assert mention["spans"] == sorted(mention["spans"])
        for start, end in mention["spans"]:
            assert 0 <= start < end <= len(text)
            assert text[start:end] == text[start:end].strip()
            assert not re.match(r"\w", text[end : end + 1]), "the span ends inside a word"
            assert not re.match(r"\w", text[max(start - 1, 0) : start]), "the span begins inside a word"
        for (_, left), (right, _) in pairwise(mention["spans"]):
            assert left < right


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda e: e["id"])
def test_entity_is_well_formed(entity):
    assert set(entity) == {"id", "name", "aliases", "definition", "types", "alternative_ids", "xrefs"}
    assert len(entity["types"]) == 1
    assert set(entity["types"]) <= TYPES
    assert entity["definition"].endswith(".")
    assert len(entity["aliases"]) <= 4
    assert all(name and name == name.strip() for name in names(entity))
    assert len({name.casefold() for name in names(entity)}) == len(names(entity))


def meanings(named):
    """The number of names with several meanings, of pairs of a name and a meaning."""
    golds = defaultdict(set)
    for name, gold in named:
        golds[name].add(gold)
    return sum(len(several) > 1 for several in golds.values())


def overlapping(document):
    covered = [{i for span in m["spans"] for i in range(*span)} for m in document["mentions"]]
    return sum(bool(a & b) for a, b in combinations(covered, 2))


def test_ids_and_mentions_are_unique_and_types_agree():
    for ids in (
        [d["id"] for d in DOCUMENTS],
        [m["id"] for _, m in MENTIONS],
        [i for e in ENTITIES for i in [e["id"], *e["alternative_ids"]]],
        [(d["id"], str(m["spans"])) for d, m in MENTIONS],
    ):
        assert [i for i, n in Counter(ids).items() if n > 1] == []
    types = {entity["id"]: entity["types"] for entity in ENTITIES}
    assert all(mention["type"] in types[CANONICAL[i]] for _, mention in linkable() for i in mention["entities"])


def test_the_sample_has_the_variety_that_others_count_on():
    by_name, used = ids_by_name(), [(surface(d, m).casefold(), m) for d, m in linkable()]
    shared = {name for name, ids in by_name.items() if len(ids) > 1}
    short = [(form, gold) for _, form, gold in abbreviations()]
    is_known = [gold[0] in CANONICAL for _, gold in short]
    counts = Counter(CANONICAL.get(i, i) for _, m in MENTIONS for i in m["entities"])
    primary = {entity["id"] for entity in ENTITIES}
    for what, number, least in (
        ("documents", len(DOCUMENTS), 66),
        ("mentions", len(MENTIONS), 340),
        ("entities", len(ENTITIES), 105),
        ("entities with aliases", sum(map(bool, (e["aliases"] for e in ENTITIES))), 0.8 * len(ENTITIES)),
        ("shared names", len(shared), 10),
        ("shared names in texts", len(shared & {name for name, _ in used}), 10),
        ("names of several meanings", meanings((name, tuple(m["entities"])) for name, m in used), 10),
        ("alternative ids as gold", len({i for _, m in used for i in m["entities"] if i not in primary}), 3),
        ("mentions of two entities", sum(len(m["entities"]) == 2 for _, m in MENTIONS), 1),
        ("mentions without an id", sum(not m["entities"] for _, m in MENTIONS), 2),
        ("documents with abbreviations", len({document for document, _, _ in abbreviations()}), 15),
        ("abbreviations of several meanings", meanings(short), 3),
        ("abbreviations of known entities", sum(is_known), 5),
        ("abbreviations of missing entities", len(is_known) - sum(is_known), 5),
        ("discontinuous mentions", sum(len(m["spans"]) > 1 for _, m in MENTIONS), 3),
        ("nested or overlapping mentions", sum(map(overlapping, DOCUMENTS)), 3),
        ("texts beyond ASCII", sum(not d["text"].isascii() for d in DOCUMENTS), 5),
        ("mentions beyond ASCII", sum(not surface(d, m).isascii() for d, m in MENTIONS), 3),
        # Their offsets are right in code points only.
        (
            "after two UTF-16 units",
            sum(max(d["text"][: m["spans"][0][0]], default="") > "\uffff" for d, m in MENTIONS),
            1,
        ),
        ("exact matches", sum(name in by_name for name, _ in used), 0.45 * len(used)),
        ("frequent entities", sum(n >= 10 for n in counts.values()), 3),
        ("entities of one mention", sum(n == 1 for n in counts.values()), 3),
        ("entities of a few mentions", sum(2 <= n <= 5 for n in counts.values()), len(counts) / 2),
    ):
        assert number >= least, what
    assert sum(name in by_name for name, _ in used) <= 0.6 * len(used)
    assert sum(not m["entities"] for _, m in MENTIONS) <= 3


def test_missing_entities():
    found = missing()
    assert len(found) >= 18
    assert all(i.startswith("NEW:") for i in found)
    for i, mentions in found.items():
        assert 2 <= len(mentions) <= 6, i
        assert len({document for document, _ in mentions}) >= 2, i
    assert sum(len({text for _, text in mentions}) > 1 for mentions in found.values()) >= 15
    known = ids_by_name()
    clash = {text for mentions in found.values() for _, text in mentions if text.casefold() in known}
    # LSC is on purpose: the Long Shore Count in the knowledge base, a disease of lambs in one document.
    assert clash == {"LSC"}


def test_text_is_plain():
    """No left-over of the markup in which the collection was written."""
    for text in [d["text"] for d in DOCUMENTS] + [n for e in ENTITIES for n in [*names(e), e["definition"]]]:
        assert not re.search(r"[\[\]{}|@#<>\n\t]|  ", text), text
