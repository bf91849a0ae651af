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


def test_ids_are_unique():
    for ids in (
        [d["id"] for d in DOCUMENTS],
        [m["id"] for _, m in MENTIONS],
        [i for e in ENTITIES for i in [e["id"], *e["alternative_ids"]]],
    ):
        assert [i for i, n in Counter(ids).items() if n > 1] == []


def test_no_mention_twice():
    places = Counter((d["id"], str(m["spans"])) for d, m in MENTIONS)
    assert [place for place, n in places.items() if n > 1] == []


def test_size():
    assert len(DOCUMENTS) >= 66
    assert len(MENTIONS) >= 340
    assert len(ENTITIES) >= 105


def test_types_agree_with_the_knowledge_base():
    types = {entity["id"]: entity["types"] for entity in ENTITIES}
    for _, mention in linkable():
        for i in mention["entities"]:
            assert mention["type"] in types[CANONICAL[i]], mention


def test_most_entities_have_aliases():
    assert sum(1 <= len(entity["aliases"]) <= 4 for entity in ENTITIES) > 0.8 * len(ENTITIES)


def test_names_are_shared():
    shared = {name for name, ids in ids_by_name().items() if len(ids) > 1}
    assert len(shared) >= 10
    used = {surface(d, m).casefold() for d, m in linkable()}
    assert len(shared & used) >= 10


def test_shared_names_have_more_than_one_meaning_in_the_text():
    meanings = defaultdict(set)
    for document, mention in linkable():
        meanings[surface(document, mention).casefold()].add(tuple(mention["entities"]))
    assert sum(len(golds) > 1 for golds in meanings.values()) >= 10


def test_alternative_ids_are_used_as_gold():
    primary = {entity["id"] for entity in ENTITIES}
    used = {i for _, m in linkable() for i in m["entities"] if i not in primary}
    assert len(used) >= 3


def test_missing_entities():
    found = missing()
    assert len(found) >= 18
    assert all(i.startswith("NEW:") for i in found)
    for i, mentions in found.items():
        assert 2 <= len(mentions) <= 6, i
        assert len({document for document, _ in mentions}) >= 2, i


def test_missing_entities_vary_in_form():
    forms = {i: {text for _, text in mentions} for i, mentions in missing().items()}
    assert sum(len(texts) > 1 for texts in forms.values()) >= 15


def test_names_of_missing_entities_are_not_in_the_knowledge_base():
    known = ids_by_name()
    clash = {t for mentions in missing().values() for _, t in mentions if t.casefold() in known}
    # LSC is on purpose: the Long Shore Count in the knowledge base, a disease of lambs in one document.
    assert clash == {"LSC"}


def test_mentions_without_any_id():
    assert 2 <= sum(not m["entities"] for _, m in MENTIONS) <= 3


def test_a_mention_can_name_two_entities():
    assert any(len(m["entities"]) == 2 for _, m in MENTIONS)


def test_documents_define_abbreviations():
    assert len({document for document, _, _ in abbreviations()}) >= 15


def test_abbreviations_mean_different_things_in_different_documents():
    meanings = defaultdict(set)
    for _, short, gold in abbreviations():
        meanings[short].add(gold)
    assert sum(len(golds) > 1 for golds in meanings.values()) >= 3


def test_abbreviations_stand_for_known_and_for_missing_entities():
    known = [gold[0] in CANONICAL for _, _, gold in abbreviations()]
    assert sum(known) >= 5
    assert len(known) - sum(known) >= 5


def test_discontinuous_mentions():
    assert sum(len(m["spans"]) > 1 for _, m in MENTIONS) >= 3


def test_nested_or_overlapping_mentions():
    pairs = 0
    for document in DOCUMENTS:
        covered = [{i for span in m["spans"] for i in range(*span)} for m in document["mentions"]]
        pairs += sum(bool(a & b) for a, b in combinations(covered, 2))
    assert pairs >= 3


def test_text_beyond_ascii_and_beyond_the_basic_plane():
    assert sum(not d["text"].isascii() for d in DOCUMENTS) >= 5
    assert sum(not surface(d, m).isascii() for d, m in MENTIONS) >= 3
    # A mention behind a character of two UTF-16 units: its offsets are right in code points only.
    assert any(ord(c) > 0xFFFF for d, m in MENTIONS for c in d["text"][: m["spans"][0][0]])


def test_share_of_exact_matches():
    known = ids_by_name()
    exact = sum(surface(d, m).casefold() in known for d, m in linkable())
    assert 0.45 <= exact / len(linkable()) <= 0.60


def test_frequent_and_rare_entities():
    counts = Counter(CANONICAL.get(i, i) for _, m in MENTIONS for i in m["entities"])
    assert sum(n >= 10 for n in counts.values()) >= 3
    assert sum(n == 1 for n in counts.values()) >= 3
    assert sum(2 <= n <= 5 for n in counts.values()) > len(counts) / 2


def test_text_is_plain():
    """No left-over of the markup in which the collection was written."""
    for text in [d["text"] for d in DOCUMENTS] + [n for e in ENTITIES for n in [*names(e), e["definition"]]]:
        assert not re.search(r"[\[\]{}|@#<>\n\t]|  ", text), text
