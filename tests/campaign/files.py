"""Knowledge bases written in several ways that a format allows: the same entities, or a note of what is not there."""

import csv
import json
import random
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from arbo.formats import read_knowledge_base
from campaign.runner import Campaign

_LETTERS = "abcαß ',(){}[]+-<>%#*/._"
"""No quotes, backslashes, bars and exclamation marks, which each format escapes in its own way."""
Content = list[tuple[str, list[str], str | None]]
"""Id, names and definition of each entity."""


def _text(chance: random.Random, more: str = "") -> str:
    letters = [chance.choice(_LETTERS + more) for _ in range(chance.randrange(1, 12))]
    return f"a{' '.join(''.join(letters).split())}z"


def _content(chance: random.Random) -> Content:
    ids = [f"X:{number}" for number in chance.sample(range(1000), chance.randrange(2, 7))]
    names = [[*dict.fromkeys(_text(chance) for _ in range(chance.randrange(1, 4)))] for _ in ids]
    return [(id_, own, _text(chance) if chance.random() < 0.5 else None) for id_, own in zip(ids, names, strict=True)]


def _obo(content: Content, chance: random.Random) -> str:
    """Escape what must be escaped, or what may be."""

    def escaped(text: str, must: str = "!\\") -> str:
        marks = must if chance.random() < 0.5 else f"{must}{{}}[](),:"
        return "".join(f"\\{mark}" if mark in marks else mark for mark in text)

    def quoted(text: str) -> str:
        return f'"{escaped(_with_quotes(text))}"'

    lines = ["format-version: 1.2"]
    for id_, (name, *others), definition in content:
        lines += ["", "[Term]", f"id: {id_}" + chance.choice(["", " ! x", ' {a="}"}']), f"name: {escaped(name)}"]
        lines += [f'synonym: {quoted(other)} {chance.choice(["EXACT", "RELATED T"])} [A:1 "]"]' for other in others]
        if definition is not None:
            lines.append(f"def: {quoted(definition)} [{chance.choice(['', 'A:1'])}]")
    return "\n".join(lines)


def _with_quotes(text: str) -> str:
    """Put quotes around a word, as some ontologies do without escaping them."""
    return re.sub(r"\b([abc]+)\b", r'"\1"', text, count=1)


def _obographs(content: Content, chance: random.Random) -> str:
    def node(id_: str, name: str, others: list[str], definition: str | None) -> dict[str, object]:
        none = {"meta": None, "type": "CLASS", "lbl": name}
        meta = {
            "definition": definition and {"val": definition, "xrefs": None},
            "synonyms": [{"pred": "hasExactSynonym", "val": other} for other in others] or None,
            "basicPropertyValues": chance.choice([None, [], [{"pred": "x"}]]),
        }
        return {"id": id_, **none, "meta": meta}

    nodes = [node(id_, names[0], names[1:], definition) for id_, names, definition in content]
    nodes.append({"id": "P", "lbl": "part of", "type": chance.choice([None, "PROPERTY"])})
    return json.dumps({"graphs": [{"nodes": nodes, "meta": None}]})


def _jsonl(content: Content, chance: random.Random) -> str:
    lines = []
    for id_, (name, *others), definition in content:
        record = {"id": id_, "name": name, "aliases": others or None, "definition": definition, "types": None}
        lines.append(json.dumps({key: value for key, value in record.items() if value or chance.random() < 0.5}))
    return "\n".join(lines)


def _medic(content: Content, chance: random.Random) -> str:
    by_line = [[f"{id_}||{name}" for name in names] for id_, names, _ in content]
    if chance.random() < 0.5:
        return "\n".join(f"{id_}||{'|'.join(names)}" for id_, names, _ in content)
    return "\n".join(lines.pop(0) for _ in range(9) for lines in by_line if lines)


def _csv(content: Content, chance: random.Random) -> str:
    file = StringIO()
    file.write(chance.choice(["", "# by me, 2020\n#\n"]))
    writer = csv.writer(file, delimiter=chance.choice(",;"), quoting=chance.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    writer.writerow(["id", "name", "aliases", "definition", "", ""])
    writer.writerows([id_, names[0], "|".join(names[1:]), definition, "x", "y"] for id_, names, definition in content)
    return file.getvalue()


def _tsv(content: Content, chance: random.Random) -> str:
    """Never quote, also where names begin and end with quotes; with or without names of columns."""
    lines = ["\t".join([id_, names[0], "|".join(names[1:]), definition or ""]) for id_, names, definition in content]
    return "\n".join(["id\tname\taliases\tdefinition"] * chance.randrange(2) + lines)


WAYS: dict[str, Callable[[Content, random.Random], str]] = {
    "obo": _obo, "obographs": _obographs, "jsonl": _jsonl, "medic": _medic, "csv": _csv, "tsv": _tsv
}  # fmt: skip


def _with_a_quote(name: str, chance: random.Random) -> str:
    """Put a quote at the beginning or the end of a name, or nowhere."""
    return chance.choice([f'"{name}', f'{name}"', name])


def _variants(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    content, format_ = _content(chance), chance.choice(sorted(WAYS))
    if format_ == "tsv":
        content = [(id_, [_with_a_quote(name, chance), *others], text) for id_, (name, *others), text in content]
    (folder / "kb").write_text(WAYS[format_](content, chance), "utf-8")
    kb = read_knowledge_base(folder / "kb", format_)
    quoted = _with_quotes if format_ == "obo" else str
    assert [(one.id, one.name, one.aliases, one.definition) for one in kb] == [
        (id_, name, tuple(map(quoted, others)), quoted(text) if text and format_ != "medic" else None)
        for id_, (name, *others), text in content
    ]
    assert kb.notes == {**dict.fromkeys(["nodes other than classes left out"] * (format_ == "obographs"), 1)}


_ASKS = "a knowledge base is the same in all ways that a format allows"
CAMPAIGNS = {"variants": Campaign(_variants, _ASKS, many=20_000, few=200)}
