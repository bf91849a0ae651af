"""Every regular expression of the sources, at its worst: texts of its own characters, repeated.

Patterns are found in the syntax trees of the sources, with the functions that use them; a pattern that is made at run
time is refused unless `MADE` has examples of it.
"""

from __future__ import annotations

import ast
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from re import _constants as constants, _parser as parser  # type: ignore[attr-defined]

from campaign.runner import Campaign

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [file for name in ("arbo", "clustering", "eval") for file in sorted((ROOT / name).rglob("*.py"))]
_FUNCTIONS = ("search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn")
MADE = {
    ("arbo/text/abbreviations.py", "any_form"): ["AB|A\\.B|WD", "A-B|(?:AB)C"],
    ("arbo/spans/finding.py", "forms"): ["AB|A B", "W\\.D|W"],
}
"""Examples of parts that are made of names at run time."""
GROWTH = 8
"""Most that a text four times as long may take; twice the linear growth, for the noise."""


@cache
def patterns() -> tuple[tuple[str, str, int, tuple[str, ...]], ...]:
    """Return place, pattern, flags and functions of each pattern of the sources."""
    texts, found = [file.read_text("utf-8") for file in SOURCES], []
    everything = "\n".join(texts)
    for file, text in zip(SOURCES, texts, strict=True):
        place = file.relative_to(ROOT).as_posix()
        module = place.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for node, name in _called(ast.parse(text)):
            function = node.func.attr  # type: ignore[attr-defined]
            if "reading.looks" in ast.unparse(node.args[0]):
                continue  # below
            uses = (function,)
            if function == "compile":
                users = text if name.startswith("_") else everything
                used = {one for one in _FUNCTIONS if name and re.search(rf"\b{name}\.{one}\b", users)}
                used |= {"fullmatch"} & {"fullmatch" for _ in re.finditer(rf"check_id\(.*\b{name}\b", users)}
                uses = tuple(sorted(used)) or _FUNCTIONS[:5]
            flags = eval(ast.unparse(node.args[1]), {"re": re}) if function == "compile" and node.args[1:] else 0
            for pattern in _values(node.args[0], place, module):
                found.append((f"{place}:{node.lineno}", pattern, int(flags), uses))
    from arbo.formats import DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS

    for formats in (DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS):
        found += [(f"looks of {name}", one.looks, int(re.M), ("search",)) for name, one in formats.items()]
    return tuple(found)


def _called(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls of functions of `re` with a pattern, and the name to which the result is assigned."""
    names = {id(node.value): ast.unparse(node.targets[0]) for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    for node in ast.walk(tree):
        named = ast.unparse(node.func) if isinstance(node, ast.Call) and node.args else ""
        if named.removeprefix("re.") in (*_FUNCTIONS, "compile") and named.startswith("re."):
            yield node, names.get(id(node), "")  # type: ignore[misc]


def _values(node: ast.expr, place: str, module: str) -> list[str]:
    """Return the value of the expression of a pattern, or those of its examples."""
    made = next((key for key in MADE if key[0] == place and f"{{{key[1]}}}" in ast.unparse(node)), None)
    known = dict(vars(import_module(module)))
    if isinstance(node, ast.Subscript):  # a table of patterns
        return [*known[ast.unparse(node.value)].values()]
    if place == "arbo/text/words.py" and "marks" in ast.unparse(node):
        known["marks"] = "".join(chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c))[0] == "M")
    return [str(eval(ast.unparse(node), known | ({made[1]: one} if made else {}))) for one in MADE.get(made, [""])]  # type: ignore[arg-type]


def _alphabet(parsed: object) -> Iterator[str]:
    """Yield the characters of a pattern, and one or two of each of its classes."""
    for op, value in parsed:  # type: ignore[attr-defined]
        if op in (constants.LITERAL, constants.NOT_LITERAL):
            yield chr(value)
        elif op is constants.RANGE:
            yield from (chr(value[0]), chr(value[1]))
        elif op is constants.CATEGORY:
            yield {"DIGIT": "7", "SPACE": " \t\n", "WORD": "ab_"}[str(value).rpartition("_")[2]][0]
        elif op is constants.IN:
            yield from [*_alphabet(value)][:40]
        elif op is constants.BRANCH:
            for branch in value[1]:
                yield from _alphabet(branch)
        elif op is constants.SUBPATTERN:
            yield from _alphabet(value[-1])
        elif op in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            yield from _alphabet(value[2])
        elif op in (constants.ASSERT, constants.ASSERT_NOT):
            yield from _alphabet(value[1])
        elif op is constants.ATOMIC_GROUP:
            yield from _alphabet(value)


def _calls(pattern: str, flags: int, functions: tuple[str, ...]) -> list[Callable[[str], object]]:
    compiled = re.compile(pattern, flags)
    made: dict[str, Callable[[str], object]] = {
        **{name: getattr(compiled, name) for name in ("search", "match", "fullmatch", "split", "findall")},
        "finditer": lambda text: sum(1 for _ in compiled.finditer(text)),
        "sub": lambda text: compiled.sub("x", text),
        "subn": lambda text: compiled.subn("x", text),
    }
    return [made[name] for name in functions]


def grows(call: Callable[[str], object], begin: str, unit: str, end: str, longest: int = 1 << 16) -> str | None:
    """Return the growth of the time of a call with the length of ``unit`` repeated, if it is more than linear."""
    before, n = 0.0, 16
    while n <= longest:
        text = begin + unit * (n // len(unit)) + end
        took = min(_seconds(call, text) for _ in range(3 if before > 0.002 else 1))
        most = max(0.03, GROWTH * max(before, 1e-4))
        if took > most and (took := min(took, _seconds(call, text), _seconds(call, text))) > most:
            return f"{n:,} characters take {took:.3f} s, and {n // 4:,} {before:.4f} s"
        before, n = took, 4 * n
    return None


def _seconds(call: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    call(text)
    return time.process_time() - begun


def _case(seed: int, folder: Path) -> None:
    """Try one pattern, the one whose turn it is, on random repetitions of its characters."""
    every, random = patterns(), Random(seed)
    place, pattern, flags, functions = every[seed % len(every)]
    letters = [*dict.fromkeys(_alphabet(parser.parse(pattern, flags))), " ", "a", "\n", "1", "\u0301", "A"]
    begin, unit, end = ("".join(random.choices(letters, k=random.randint(low, 4))) for low in (0, 1, 0))
    literal = re.sub(r"\\[AbZ]|[\^$]|\(\?[=!<:]*|[()|*+?]", "", pattern)[:30]
    begin = random.choice([begin, "", literal, f"x\n{begin}"])
    for call in _calls(pattern, flags, functions):
        if told := grows(call, begin, unit, end):
            raise AssertionError(f"{place}: {pattern!r} on {begin!r} + {unit!r} * n + {end!r}: {told}")


CAMPAIGNS = {
    "patterns": Campaign(
        _case, "each regular expression takes time that is linear in its text", many=100_000, few=216, seconds=120
    )
}
