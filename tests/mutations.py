"""Damage to files, drawn from a seed: of bytes, lines, fields, numbers, encodings, and values inside JSON or XML."""

import gzip
import json
import random
import re
from typing import Any

EXTREMES: list[Any] = [
    *(0, -1, 1, 2, 2**15, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30),
    *(0.0, -0.0, 0.5, 1.5, 1e-320, 1e38, 1e39, 1.7e308, -1.7e308, float("inf"), float("-inf"), float("nan"), True),
]
TEXTS = [
    *("", " ", "x", "\0", "\ud800", "\ufeff", "a\u2028b", "\U0001f98a", "e\u0301", "\u202eabc", "=cmd()", "<script>"),
    *("&x;", "../..", "/etc/passwd", "a/b", "\t", "\n", "\r", "a|b", '"', "\\", "null", "NaN", "1e999", "-"),
    "x" * 3000,
]
_OTHERS: list[Any] = [None, [], {}, [[]], [{}], [None], {"a": {}}, ["x", 1], [[0, 1]], [[5, 2]], False]
_PIECES = [
    *(b"", b"{", b"}", b"[", b"]", b"null", b"[]", b"{}", b"-1", b"1e999", b'"', b"\xff", b"\\ud800", b"\0", b"<"),
    *(b">", b"&x;", b"\n", b"\r\n", b"\t", b"|", b",", b";"),
    *(b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"]]>", b"<!--"),
]


def text(chance: random.Random) -> str:
    """Draw a text that some code may not expect."""
    return chance.choice(TEXTS)


def value(chance: random.Random) -> Any:
    """Draw a value of JSON; it may be too large, or no number."""
    return chance.choice(chance.choice([EXTREMES, TEXTS, _OTHERS]))


def changed(given: Any, chance: random.Random) -> Any:
    """Change one value inside a value of JSON: replace, remove, repeat, exchange or rename it."""
    if isinstance(given, dict) and given and chance.random() < 0.9:
        key, how = chance.choice(sorted(given)), chance.random()
        if how < 0.1:
            return {name: one for name, one in given.items() if name != key}
        if how < 0.15:
            return {**given, text(chance): given[key]}
        if how < 0.2:
            return {**given, key: given[chance.choice(sorted(given))]}
        return {**given, key: changed(given[key], chance)}
    if isinstance(given, list) and given and chance.random() < 0.9:
        at, how = chance.randrange(len(given)), chance.random()
        if how < 0.1:
            return given[:at] + given[at + 1 :]
        if how < 0.2:
            return [*given, given[at]]
        if how < 0.25:
            return given[::-1]
        return [*given[:at], changed(given[at], chance), *given[at + 1 :]]
    if type(given) is int and chance.random() < 0.4:
        return given + chance.choice([-1, 1, 7])
    if isinstance(given, str) and given and chance.random() < 0.4:
        return mutated_text(given, chance)
    return value(chance)


def mutated_text(given: str, chance: random.Random) -> str:
    """Put a text into a text, or repeat a part of it."""
    at = chance.randrange(len(given) + 1)
    return given[:at] + chance.choice([text(chance), given]) + given[at + chance.choice([0, 1, 3]) :]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Damage the content of a file up to three times."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        content = chance.choice(_WAYS)(content, chance)
    return content


def _pieces(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content) + 1)
    end = begin + chance.choice([0, 1, 2, 8, 64])
    own = content[(at := chance.randrange(len(content) + 1)) : at + chance.choice([1, 4, 16, 256])]
    return content[:begin] + chance.choice([*_PIECES, own, own]) + content[end:]


def _flip(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + bytes(byte ^ 1 << chance.randrange(8) for byte in content[at : at + 1]) + content[at + 1 :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] if chance.random() < 0.7 else content[at:]


def _moved(content: bytes, chance: random.Random, mark: bytes = b"\n", new: bytes | None = None) -> bytes:
    """Exchange, repeat, remove or replace a part of what a mark divides."""
    parts = content.split(mark)
    one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    how = chance.randrange(4)
    if how == 0:
        parts[one], parts[other] = parts[other], parts[one]
    elif how == 1:
        parts.insert(one, parts[other])
    elif how == 2:
        del parts[one]
    else:
        parts[one] = parts[other] if new is None else new
    return mark.join(parts)


def _fields(content: bytes, chance: random.Random) -> bytes:
    """Change the fields of a line, whatever separates them."""
    lines = content.split(b"\n")
    at, mark = chance.randrange(len(lines)), chance.choice([b"\t", b"|", b",", b" ", b";", b":"])
    lines[at] = _moved(lines[at], chance, mark, text(chance).encode("utf-8", "surrogatepass"))
    return b"\n".join(lines)


def _number(content: bytes, chance: random.Random) -> bytes:
    places = list(re.finditer(rb"\d+(\.\d+)?", content))
    if not places:
        return content
    place = chance.choice(places)
    near = [str(int(float(place[0])) + step).encode() for step in (-1, 1)] if len(place[0]) < 15 else []
    other = chance.choice([*near, str(chance.choice(EXTREMES)).encode(), "\u0661".encode(), "\u00b2".encode(), b"1_0"])
    return content[: place.start()] + other + content[place.end() :]


def _encoding(content: bytes, chance: random.Random) -> bytes:
    decoded = content.decode("utf-8", "replace")
    zipped, wide = gzip.compress(content, mtime=0), decoded.encode("utf-16")
    ways = [b"\xef\xbb\xbf" + content, content.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n"]))]
    ways += [zipped, zipped[: chance.randrange(len(content) + 30)]]
    ways += [wide, wide[: chance.randrange(2 * len(decoded) + 2)], decoded.encode("latin-1", "replace")]
    return chance.choice(ways)


def _json(content: bytes, chance: random.Random) -> bytes:
    """Change a value of JSON, or of a line of JSON; anything else is changed as bytes."""
    try:
        return json.dumps(changed(json.loads(content), chance), ensure_ascii=chance.random() < 0.5).encode()
    except ValueError:
        lines = content.split(b"\n")
        at = chance.randrange(len(lines))
        try:
            lines[at] = json.dumps(changed(json.loads(lines[at]), chance)).encode()
        except ValueError:
            return _xml(content, chance)
        return b"\n".join(lines)


def _xml(content: bytes, chance: random.Random) -> bytes:
    """Exchange, repeat or remove elements or tags of XML; anything else is changed as bytes."""
    tags = list(re.finditer(rb"<(\w+)[^<>]*>[^<>]*</\1>|</?\w[^<>]*>", content))
    if not tags:
        return _pieces(content, chance)
    one, other = sorted((chance.choice(tags), chance.choice(tags)), key=lambda tag: tag.start())
    how = chance.randrange(4)
    if how == 0 and one.end() <= other.start():
        between = content[one.end() : other.start()]
        return content[: one.start()] + other[0] + between + one[0] + content[other.end() :]
    if how == 1:
        return content[: one.start()] + content[one.end() :]
    if how == 2:
        return content[: one.start()] + one[0] + content[one.start() :]
    filled = re.sub(rb">[^<>]*<", lambda _: b">" + text(chance).encode("utf-8", "replace") + b"<", one[0], count=1)
    return content[: one.start()] + filled + content[one.end() :]


_WAYS = [*[_pieces] * 2, _flip, _cut, _moved, *[_fields] * 2, *[_number] * 2, _encoding, *[_json] * 4]
