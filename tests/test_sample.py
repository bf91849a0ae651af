"""The embedded sample collection has the form and the variety that the demo and the other tests count on."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise

import arbo
from arbo import Document, Mention

DOCUMENTS, KB = arbo.load_sample()
MENTIONS = DOCUMENTS.mentions
TEXT = {document.id: document.text for document in DOCUMENTS}
TYPES = {"Species", "Disease", "Place", "Instrument", "Vessel", "Person", "Project", "Organisation"}
GOLD = {mention.id: mention.gold or () for mention in MENTIONS}
LINKABLE = [mention for mention in MENTIONS if any(id_ in KB for id_ in GOLD[mention.id])]
IDS_BY_NAME: defaultdict[str, set[str]] = defaultdict(set)
for name_, row_ in zip(*KB.names(), strict=True):
    IDS_BY_NAME[name_.casefold()].add(KB.entities[row_].id)


def missing() -> dict[str, list[Mention]]:
    """The mentions of each entity that the knowledge base lacks."""
    found = defaultdict(list)
    for mention in MENTIONS:
        for id_ in GOLD[mention.id]:
            if id_ not in KB:
                found[id_].append(mention)
    return found


def is_short_for(short: str, long: str) -> bool:
    """Whether the letters of `short` occur in `long` in this order, the first one at its beginning."""
    letters = iter(long.casefold())
    return long[0].casefold() == short[0].casefold() and all(letter in letters for letter in short.casefold())


def abbreviations() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Document, short form and gold ids of each "long form (LF)" whose LF is a mention again further on."""
    for document in DOCUMENTS:
        for mention in document.mentions:
            opening = re.match(r" \(([A-Z]{2,6})\)", document.text[mention.end :])
            if opening and is_short_for(opening[1], mention.text):
                after = (m for m in document.mentions if m.start >= mention.end + opening.end())
                if any((later.text, later.gold) == (opening[1], mention.gold) for later in after):
                    yield document.id, opening[1], GOLD[mention.id]


def meanings(named: Iterable[tuple[str, object]]) -> int:
    """The number of names with several meanings, of pairs of a name and a meaning."""
    golds = defaultdict(set)
    for name, gold in named:
        golds[name].add(gold)
    return sum(len(several) > 1 for several in golds.values())


def overlapping(document: Document) -> int:
    covered = [{place for span in mention.spans for place in range(*span)} for mention in document.mentions]
    return sum(bool(one & other) for one, other in combinations(covered, 2))


def test_documents_are_well_formed() -> None:
    for document in DOCUMENTS:
        text = document.text
        assert text == text.strip()
        assert 3 <= len(re.findall(r"(?<!\b[A-Z])[.!?](?=\s|$)", text)) <= 7
        assert document.mentions
        assert not document.metadata
        for mention in document.mentions:
            assert mention.id.startswith(document.id + "-")
            assert mention.type in TYPES
            assert not mention.metadata
            assert all(left < right for (_, left), (right, _) in pairwise(mention.spans))
            for start, end in mention.spans:
                assert text[start:end] == text[start:end].strip()
                assert not re.match(r"\w", text[end : end + 1]), "the span ends inside a word"
                assert not re.match(r"\w", text[max(start - 1, 0) : start]), "the span begins inside a word"
    assert not [place for place, n in Counter((m.document_id, m.spans) for m in MENTIONS).items() if n > 1]
    assert all(m.type in KB[id_].types for m in LINKABLE for id_ in GOLD[m.id])


def test_entities_are_well_formed() -> None:
    for entity in KB:
        names = [entity.name, *entity.aliases]
        assert len({*entity.types} & TYPES) == len(entity.types) == 1
        assert entity.definition is not None
        assert entity.definition.endswith(".")
        assert all(name == name.strip() != "" for name in names)
        assert len({name.casefold() for name in names}) == len(names) <= 5
        assert not entity.metadata
    ids = [id_ for entity in KB for id_ in (entity.id, *entity.alternative_ids)]
    assert len(set(ids)) == len(ids)


def test_the_sample_has_the_variety_that_others_count_on() -> None:
    names = [(mention.text.casefold(), GOLD[mention.id]) for mention in LINKABLE]
    shared, exact = {name for name, ids in IDS_BY_NAME.items() if len(ids) > 1}, [n in IDS_BY_NAME for n, _ in names]
    short = [(form, gold) for _, form, gold in abbreviations()]
    is_known = [gold[0] in KB for _, gold in short]
    counts = Counter(KB[id_].id if id_ in KB else id_ for ids in GOLD.values() for id_ in ids).values()
    for what, number, least in (
        ("documents", len(DOCUMENTS), 66),
        ("mentions", len(MENTIONS), 340),
        ("entities", len(KB), 105),
        ("entities with aliases", sum(bool(entity.aliases) for entity in KB), 0.8 * len(KB)),
        ("shared names", len(shared), 10),
        ("shared names in texts", len(shared & {name for name, _ in names}), 10),
        ("names of several meanings", meanings(names), 10),
        ("alternative ids as gold", len({i for _, ids in names for i in ids if i in KB and KB[i].id != i}), 3),
        ("mentions of two entities", sum(len(ids) == 2 for ids in GOLD.values()), 1),
        ("mentions without an id", sum(not ids for ids in GOLD.values()), 2),
        ("documents with abbreviations", len({document for document, _, _ in abbreviations()}), 15),
        ("abbreviations of several meanings", meanings(short), 3),
        ("abbreviations of known entities", sum(is_known), 5),
        ("abbreviations of missing entities", len(is_known) - sum(is_known), 5),
        ("discontinuous mentions", sum(len(mention.spans) > 1 for mention in MENTIONS), 3),
        ("nested or overlapping mentions", sum(map(overlapping, DOCUMENTS)), 3),
        ("texts beyond ASCII", sum(not text.isascii() for text in TEXT.values()), 5),
        ("mentions beyond ASCII", sum(not mention.text.isascii() for mention in MENTIONS), 3),
        # Their offsets are right in code points only.
        ("after two UTF-16 units", sum(max(" " + TEXT[m.document_id][: m.start]) > "\uffff" for m in MENTIONS), 1),
        ("exact matches", sum(exact), 0.45 * len(names)),
        ("frequent entities", sum(n >= 10 for n in counts), 3),
        ("entities of one mention", sum(n == 1 for n in counts), 3),
        ("entities of a few mentions", sum(2 <= n <= 5 for n in counts), len(counts) / 2),
    ):
        assert number >= least, what
    assert sum(exact) <= 0.6 * len(names)
    assert sum(not ids for ids in GOLD.values()) <= 3


def test_missing_entities() -> None:
    found = missing()
    assert len(found) >= 18
    assert all(id_.startswith("NEW:") for id_ in found)
    assert {len(mentions) for mentions in found.values()} <= {*range(2, 7)}
    assert min(len({mention.document_id for mention in mentions}) for mentions in found.values()) >= 2
    assert sum(len({mention.text for mention in mentions}) > 1 for mentions in found.values()) >= 15
    clash = {m.text for mentions in found.values() for m in mentions if m.text.casefold() in IDS_BY_NAME}
    # LSC is on purpose: the Long Shore Count in the knowledge base, a disease of lambs in one document.
    assert clash == {"LSC"}


def test_text_is_plain() -> None:
    """No left-over of the markup in which the collection was written."""
    for text in [*TEXT.values(), *KB.names().names, *(entity.definition or "" for entity in KB)]:
        assert not re.search(r"[\[\]{}|@#<>\n\t]|  ", text), text
