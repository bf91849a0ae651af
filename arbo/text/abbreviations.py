"""Find the abbreviations that a document defines, and replace them with their long forms (Schwartz and Hearst 2003).

"Wilson disease (WD)" and "WD (Wilson disease)" both define WD for the rest of the document. The long form is the
last words before the bracket, one for each letter of the short form, which begin with these ("aplastic anemia (AA)");
otherwise the shortest run of words that contains the letters in order, the first of them at the beginning of a word; or
else the last words that begin with the letters in any order ("myotonic dystrophy (DM)"). A definition may span the end
of a line, but not a blank line. A short form with `=`, `<` or `>` is a figure, and a long form with a bracket between
its words is a list: neither is a definition.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from arbo.text.checks import Span

Definition = tuple[Span, Span]
"""The definition of an abbreviation: the spans of its short and its long form in the text."""

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?;]\s+(?=[A-Z0-9])")
_BLANK_LINE = re.compile(r"\n\s*\n")
_BRACKET = re.compile(r"[()\[\]]")
_ALTERNATIVE = re.compile(r"[;,]|\bor\b")
_BRACKET_BETWEEN_WORDS = re.compile(r"(?<!\S)[(\[][^()\[\]]*[)\]](?![^\s,;.])")
_MAX_SHORT = 10
# Search only this many characters around a bracket: without a limit, a text with many brackets takes quadratic time.
_WINDOW = 500


def definitions(text: str) -> list[Definition]:
    """Find the abbreviations that a text defines, in text order; unbalanced brackets are ignored.

    >>> text = "Patients with Wilson disease (WD) were compared with CT (copper toxicosis)."
    >>> [(text[slice(*short)], text[slice(*long)]) for short, long in definitions(text)]
    [('WD', 'Wilson disease'), ('CT', 'copper toxicosis')]
    """
    if "(" not in text and "[" not in text:
        return []
    ends = sorted((0, *(match.end() for end in (_SENTENCE_END, _BLANK_LINE) for match in end.finditer(text))))
    defined = []
    for opening, closing in _brackets(text):
        where = text, _begin(text, ends[bisect_right(ends, opening) - 1], opening), opening, closing
        definition = _short_in_brackets(*where) or _long_in_brackets(*where)
        if definition and not _BLANK_LINE.search(text, min(definition)[0], max(definition)[1]):
            defined.append(definition)
    return defined


def expander(text: str) -> Callable[[str], str]:
    """Return a function that replaces the abbreviations in a name with the long forms that `text` defines.

    The first definition of an abbreviation counts. Case matters; a plural s does not. A bracketed short form is
    dropped unless the name begins with it. Each run of white space in a long form becomes one blank.

    >>> expand = expander("Wilson disease (WD) is rare. WD patients were seen.")
    >>> expand("WD"), expand("WD patients"), expand("Wilson disease (WD)"), expand("wd")
    ('Wilson disease', 'Wilson disease patients', 'Wilson disease', 'wd')
    """
    long_of: dict[str, str] = {}
    for short, long in definitions(text):
        long_of.setdefault(text[slice(*short)], " ".join(text[slice(*long)].split()))
    add_other_number(long_of)
    if not long_of:
        return str
    forms = sorted(long_of, key=len, reverse=True)

    def write_out(name: str) -> str:
        if name in long_of:
            return long_of[name]
        if not any(form in name for form in forms):
            return name
        any_form = "|".join(map(re.escape, forms))
        word, bracketed = rf"(?<!\w)(?:{any_form})(?!\w)", rf"(?<!\s)\s*[(\[](?:{any_form})[)\]]"
        name = re.sub(bracketed, lambda match: "" if match.start() else match[0], name)
        folded = " ".join(name.split()).casefold()
        short_forms = set(re.findall(word, name))
        written = {short: short if long_of[short].casefold() in folded else long_of[short] for short in short_forms}
        return re.sub(word, lambda match: written[match[0]], name)

    return write_out


def singular_form(form: str) -> str:
    """Return an abbreviation without its plural s; one of two letters has none."""
    return form[:-1] if form.endswith("s") and len(form) > 2 else form


def add_other_number(of_form: dict[str, Any]) -> None:
    """Add the plural of each singular form, and the singular of each plural, unless the form is there already."""
    for form, meaning in list(of_form.items()):
        singular = singular_form(form)
        of_form.setdefault(singular if singular != form else form + "s", meaning)


def _brackets(text: str) -> list[Span]:
    """Return the offsets of balanced pairs of round or square brackets, sorted by their opening."""
    opened: dict[str, list[int]] = {"(": [], "[": []}
    pairs = list[Span]()
    for match in _BRACKET.finditer(text):
        if match[0] in opened:
            opened[match[0]].append(match.start())
            continue
        same, others = (opened[one] for one in ("([" if match[0] == ")" else "[("))
        if same:
            pairs.append((same.pop(), match.start()))
            while others and others[-1] > pairs[-1][0]:
                others.pop()
    return sorted(pairs)


def _begin(text: str, sentence: int, opening: int) -> int:
    """Return the offset at which the words before a bracket begin: that of the sentence, or of a word in the window."""
    if (begin := opening - _WINDOW) <= sentence:
        return sentence
    blank = text.find(" ", begin, opening)
    return opening if blank < 0 else blank + 1


def _short_in_brackets(text: str, begin: int, opening: int, closing: int) -> Definition | None:
    content = text[opening + 1 : min(closing, opening + 1 + 4 * _MAX_SHORT)]
    if not _is_short_form(inner := _ALTERNATIVE.split(content, maxsplit=1)[0].strip("\"' \t\n")):
        return None
    words = [match.start() for match in re.finditer(r"\S+", text[begin:opening])] or [0]
    at = text.index(inner, opening + 1)
    plural = len(inner) > 2 and inner[-1] == "s" and inner[:-1].isupper()
    for short in (inner, inner[:-1]) if plural else (inner,):
        start = begin + words[-_max_words(short) :][0]
        before = text[start:opening].rstrip()
        long = _long_form_start(short, before)
        if long is None or _BRACKET_BETWEEN_WORDS.search(before[long:]) or _has_odd_bracket(before[long:]):
            continue
        if len(before) - long > len(short) and short not in before[long:].split():
            return (at, at + len(inner)), (start + long, start + len(before))
    return None


def _long_in_brackets(text: str, begin: int, opening: int, closing: int) -> Definition | None:
    if closing - opening > _WINDOW:
        return None
    before = text[begin:opening].rstrip()
    short = before.rsplit(maxsplit=1)[-1] if before else ""
    if not _is_short_form(short) or not any(map(str.isupper, short)):
        return None
    long = text[opening + 1 : closing].rstrip()
    if not 2 <= len(long.split()) <= _max_words(short) or _long_form_start(short, long) != 0:
        return None
    end = begin + len(before)
    return (end - len(short), end), (opening + 1, opening + 1 + len(long))


def _is_short_form(text: str) -> bool:
    is_short = 2 <= len(text) <= _MAX_SHORT and len(text.split()) <= 2 and text[0].isalnum()
    return is_short and any(map(str.isalpha, text)) and not any(sign in text for sign in "=<>")


def _has_odd_bracket(text: str) -> bool:
    return any(text.count(opening) != text.count(closing) for opening, closing in ("()", "[]"))


def _max_words(short: str) -> int:
    return min(len(short) + 5, 2 * len(short))


def _long_form_start(short: str, text: str) -> int | None:
    """Return the offset of the long form of ``short`` that ends where ``text`` ends; None without one."""
    letters = [letter.lower() for letter in short if letter.isalnum()]
    initials = [match.start() for match in _WORD.finditer(text)][-len(letters) :]
    at, begins = len(text), [text[begin].lower() for begin in initials]
    for place, letter in reversed([*enumerate(letters)]):
        at -= 1
        while at >= 0 and (text[at].lower() != letter or (place == 0 and at > 0 and text[at - 1].isalnum())):
            at -= 1
    if at < 0 and sorted(begins) != sorted(letters):
        return None
    if at < 0 or begins == letters:
        at = initials[0]
    while at > 0 and not text[at - 1].isspace():
        at -= 1
    return at + (text[at] in "([" and _has_odd_bracket(text[at:]))
