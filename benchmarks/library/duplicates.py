"""Tables of entities with known duplicates, made of the names and gold ids of annotated corpora.

Each gold id is an entity: its most frequent name, its type, and the sentence of a mention of that name. The duplicate
of an entity differs in one way, and its text is the sentence of another mention or, without one, the sentence after
that of the first. Where the name of a row is changed, it is changed in its text too.
"""

import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.text.names import normalize_name
from arbo.text.sentences import sentences
from library.annotated import _FIRMS, _NAMED, _PERSONS, _PLACES, _PRONOUNS

KINDS = (
    *("case", "order", "initials", "abbreviation", "transliteration", "nickname", "typo", "description", "homonym"),
    "as written",
)
"""The kinds of difference; the last is another name that the corpus itself has for the entity."""
MOST = 60
"""Largest number of entities of a kind in one table."""
SINGLE = 300
"""Largest number of entities with one row in one table."""
_TEXT = 150  # characters on either side of a name


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: what a system sees, and then the answer."""

    name: str
    type: str
    text: str
    entity: str
    kind: str
    """The kind of difference of its entity; empty for an entity with one row."""


class Draft(NamedTuple):
    """A mention of an entity in its sentence."""

    name: str
    before: str
    after: str
    next: str
    """The sentence after it."""


def tables(documents: Corpus, seed: int = 0) -> tuple[list[Row], list[Row]]:
    """Return a development table and a test table, each made of one half of the entities."""
    found = _entities(documents)
    ids = sorted(found)
    random.Random(seed).shuffle(ids)
    halves = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    one, two = (_table({id_: found[id_] for id_ in half}, seed) for half in halves)
    return one, two


def _entities(documents: Corpus) -> dict[str, tuple[str, list[Draft]]]:
    """Return the type of each entity, and its names in their sentences, the most frequent name first."""
    drafts: dict[str, list[Draft]] = defaultdict(list)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for document in documents:
        bounds = sentences(document.text).tolist()
        for mention in document.mentions:
            if _is_name(mention):
                (id_, *_) = mention.gold or ("",)
                kinds[id_][_class_of(mention.type)] += 1
                drafts[id_].append(_draft(document, mention, bounds))
    made = {}
    for id_, some in drafts.items():
        count = Counter(name for name, *_ in some)
        some.sort(key=lambda draft: (-count[draft.name], draft.name))
        made[id_] = max(sorted(kinds[id_]), key=kinds[id_].__getitem__), some
    return made


def _is_name(mention: Mention) -> bool:
    words = re.findall(r"\w+", mention.text)
    capital = bool(words) and words[0][0].isupper() and words[-1][:1].isupper()
    short = len(words) <= 8 and "\n" not in mention.text
    known = bool(mention.gold) and (mention.type or "").lower() in _NAMED
    return capital and short and known and mention.text.lower() not in _PRONOUNS


def _class_of(type_: str | None) -> str:
    named = {"person": _PERSONS, "organization": _FIRMS, "place": _PLACES}
    return next((name for name, some in named.items() if (type_ or "").lower() in some), "place")


def _draft(document: Document, mention: Mention, bounds: Sequence[tuple[int, int]]) -> Draft:
    place = next((place for place, (begin, end) in enumerate(bounds) if begin <= mention.start < end), -1)
    begin, end = bounds[place] if place >= 0 else (mention.start, mention.end)
    after = bounds[place + 1] if 0 <= place < len(bounds) - 1 else (0, 0)
    begin, end = max(begin, mention.start - _TEXT), max(mention.end, min(end, mention.end + _TEXT))
    text = document.text
    parts = (text[begin : mention.start], text[mention.end : end], text[slice(*after)][:_TEXT])
    return Draft(mention.text, *(" ".join(part.split()) for part in parts))


def _table(found: Mapping[str, tuple[str, list[Draft]]], seed: int) -> list[Row]:
    choice = random.Random(seed + 1)
    rows: list[Row] = []
    count: Counter[str] = Counter()
    names = Counter((type_, drafts[0].name) for type_, drafts in found.values())
    for place, (id_, (type_, drafts)) in enumerate(found.items()):
        base = _row(drafts[0], drafts[0].name, type_, id_)
        if names[type_, base.name] > 1 or place % 5 == 0:  # a homonym of the corpus itself, or one to make later
            rows.append(replace(base, kind="homonym" if names[type_, base.name] > 1 else ""))
            continue
        other = next((one for one in drafts if normalize_name(one.name) != normalize_name(base.name)), None)
        made = {"as written": other.name if other else ""} | {kind: rule(base, choice) for kind, rule in RULES.items()}
        able = [kind for kind, name in made.items() if name and name != base.name and count[kind] < MOST]
        if not able:
            rows.append(base)
            continue
        kind = min(able, key=lambda kind: (count[kind], KINDS.index(kind)))
        count[kind] += 1
        second = [other] if kind == "as written" and other else drafts
        rows += [replace(base, kind=kind), replace(_second(second, made[kind], type_, id_), kind=kind)]
    rows = _with_homonyms(rows, choice)
    single = [place for place, row in enumerate(rows) if not row.kind]
    left_out = set(choice.sample(single, max(len(single) - SINGLE, 0)))
    return [row for place, row in enumerate(rows) if place not in left_out]


def _second(drafts: Sequence[Draft], name: str, type_: str, id_: str) -> Row:
    """Return a row with another name, and the text of another mention or the sentence after that of the first."""
    first = drafts[0]
    other = first if first.name == name else next((one for one in drafts if one[1:] != first[1:]), None)
    return _row(other, name, type_, id_) if other else Row(name, type_, f"{name}. {first.next}".strip(), id_, "")


def _row(draft: Draft, name: str, type_: str, id_: str) -> Row:
    space = "" if draft.after[:1] in ",.;:)'" else " "
    return Row(name, type_, f"{draft.before} {name}{space}{draft.after}".strip(), id_, "")


def _with_homonyms(rows: list[Row], choice: random.Random) -> list[Row]:
    """Give entities without a duplicate the name of another one of their type, as far as homonyms are missing."""
    missing = MOST - sum(row.kind == "homonym" for row in rows) // 2
    single = [place for place, row in enumerate(rows) if not row.kind and row.name in row.text]
    choice.shuffle(single)
    single.sort(key=lambda place: rows[place].type)
    for one, two in zip(single[::2], single[1::2], strict=False):
        if missing > 0 and rows[one].type == rows[two].type:
            name, old = rows[one].name, rows[two]
            rows[one] = replace(rows[one], kind="homonym")
            rows[two] = replace(old, name=name, text=old.text.replace(old.name, name), kind="homonym")
            missing -= 1
    return rows


def _case(row: Row, choice: random.Random) -> str:
    return row.name.upper() if choice.random() < 0.5 or row.name.islower() else row.name.lower()


def _order(row: Row, choice: random.Random) -> str:
    words = row.name.split()
    return f"{words[-1]}, {' '.join(words[:-1])}" if len(words) > 1 else ""


def _initials(row: Row, choice: random.Random) -> str:
    words = row.name.split()
    if row.type != "person" or len(words) < 2 or not all(word[:1].isupper() for word in words[:-1]):
        return ""
    return " ".join([f"{word[0]}." for word in words[:-1]] + [words[-1]])


def _abbreviation(row: Row, choice: random.Random) -> str:
    letters = "".join(word[0] for word in re.findall(r"\w+", row.name) if word[0].isupper())
    return letters if len(letters) > 2 and row.type != "person" else ""


_ROMAN = (
    *(("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss"), ("å", "aa"), ("ø", "oe"), ("sky", "skij"), ("tch", "ch")),
    *(("sch", "sh"), ("ch", "kh"), ("ph", "f"), ("w", "v"), ("ck", "k"), ("y", "i"), ("c", "k"), ("j", "i")),
)


def _transliteration(row: Row, choice: random.Random) -> str:
    """Apply the first rule of the list that applies to a letter after the first; leave out all other marks."""
    plain = row.name
    for old, new in _ROMAN:
        if old in plain[1:]:
            plain = plain[0] + plain[1:].replace(old, new)
            break
    marks = unicodedata.normalize("NFKD", plain)
    return "".join(letter for letter in marks if not unicodedata.combining(letter))


_SHORT = """
    William/Bill Robert/Bob Richard/Dick James/Jim John/Jack Thomas/Tom Charles/Charlie Edward/Ted Henry/Harry
    Elizabeth/Liz Margaret/Peggy Mary/Molly Catherine/Kate Katherine/Kathy Michael/Mike Joseph/Joe Daniel/Dan
    Samuel/Sam Benjamin/Ben Alexander/Alex Andrew/Drew Anthony/Tony Christopher/Chris David/Dave Donald/Don
    Francis/Frank Frederick/Fred George/Georgie Gerald/Jerry Gregory/Greg Jacob/Jake Jennifer/Jenny Jonathan/Jon
    Kenneth/Ken Lawrence/Larry Leonard/Len Martin/Marty Matthew/Matt Nicholas/Nick Patricia/Pat Patrick/Paddy
    Peter/Pete Philip/Phil Raymond/Ray Ronald/Ron Stephen/Steve Steven/Steve Susan/Sue Theodore/Teddy
    Timothy/Tim Vincent/Vince Walter/Walt Louis/Lou Albert/Al Alfred/Fred Arthur/Art Eugene/Gene Ernest/Ernie
    Johann/Hans Johannes/Hannes Friedrich/Fritz Wilhelm/Willi Heinrich/Heinz Joseph/Jupp Ludwig/Lutz Karl/Kalle
    Rudolf/Rudi Maximilian/Max Sebastian/Basti Georg/Schorsch Ferdinand/Ferdi Leopold/Poldi Anna/Annie Maria/Mia
    Jean/Jeannot Pierre/Pierrot Jacques/Jacquot Charlotte/Lotte Caroline/Lina Victoria/Vicky Louise/Lulu
    Paul/Paulie Adam/Ade Hans/Hansi Otto/Ottel Oscar/Ossie Emil/Milo August/Gus Augustus/Gus Eduard/Edi
"""
NICKNAMES = dict(pair.split("/") for pair in _SHORT.split())


def _nickname(row: Row, choice: random.Random) -> str:
    words = row.name.split()
    if row.type != "person" or words[0] not in NICKNAMES:
        return ""
    return " ".join([NICKNAMES[words[0]], *words[1:]])


def _typo(row: Row, choice: random.Random) -> str:
    places = [match.start() for match in re.finditer(r"(?<=\w\w)\w(?=\w\w)", row.name)]
    if not places:
        return ""
    at, letter = choice.choice(places), choice.choice("aeinorst")
    name, way = row.name, choice.randrange(4)
    changed = (name[at + 1] + name[at], name[at + 1], name[at] * 2 + name[at + 1], letter + name[at + 1])[way]
    return name[:at] + changed + name[at + 2 :]


_DESCRIBED = {
    "person": ("Mr. {}", "{}, the elder", "the famous {}"),
    "organization": ("the {} organization", "{} company", "the {}"),
    "place": ("the town of {}", "{} region", "{}, the city"),
}


def _description(row: Row, choice: random.Random) -> str:
    return choice.choice(_DESCRIBED[row.type]).format(row.name)


RULES: Mapping[str, Callable[[Row, random.Random], str]] = {
    "nickname": _nickname,
    "abbreviation": _abbreviation,
    "initials": _initials,
    "order": _order,
    "transliteration": _transliteration,
    "case": _case,
    "typo": _typo,
    "description": _description,
}
"""Each makes the other name of an entity, or an empty one if it does not apply; homonyms are made last."""


def counts(rows: Iterable[Row]) -> Counter[str]:
    """Count the rows of each kind."""
    return Counter(row.kind for row in rows)
