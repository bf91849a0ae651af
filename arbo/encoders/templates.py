"""Templates, which convert a mention in context, or an entity, to a row of tokens.

A template is written as in the papers, with fields in braces and literal markers:

    [CLS] {left} [START] {mention} [END] {right} [SEP]

`[CLS]` and `[SEP]` stand for the model's own tokens, or for nothing if the model has none. Any other literal is one
token if the vocabulary has it, otherwise several. Special tokens and added markers in a field are plain text.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from arbo.errors import DataError, UsageError
from arbo.text.checks import check_text

MENTION_FIELDS = ("left", "mention", "right")
ENTITY_FIELDS = ("name", "description", "definition", "aliases", "types")

_PIECE = re.compile(r"\{(.*?)\}|[^\s{]+")  # a field, whose name is the group, or a literal
_MODEL_TOKENS = ("[CLS]", "[SEP]")  # literals for tokens whose names depend on the model
_CHARACTERS_A_TOKEN = 6  # characters to tokenise at first for each token that fits; if too few, four times as many


class Part(NamedTuple):
    """A literal or a field of a template."""

    text: str
    is_field: bool


class TokenRow(NamedTuple):
    """Tokens of one input; those of the mention or the name are ``ids[begin:end]``."""

    ids: list[int]
    begin: int
    end: int


FieldTokens = Mapping[str, list[int]]  # tokens of each field of one input


@dataclass(frozen=True, slots=True)
class Template:
    """Literals and fields in order; ``focus`` is the required field, the mention or the name."""

    parts: tuple[Part, ...]
    focus: str

    @classmethod
    def parse(cls, text: str, fields: Sequence[str], *, focus: str) -> Self:
        """Parse a template; raise UsageError for an unknown, repeated or formatted field, or a missing focus."""
        try:
            check_text(text, "it")
        except DataError as error:
            raise UsageError(f"template {text!r}: {error}") from None
        parts: list[Part] = []
        for piece in _PIECE.finditer(text):
            part = Part(piece[0], False) if piece[1] is None else Part(piece[1], True)
            if part.is_field and (part.text not in fields or part in parts):
                known = ", ".join(f"{{{name}}}" for name in fields)
                raise UsageError(f"template {text!r}: {piece[0]} is no plain field; write each of {known} at most once")
            parts.append(part)
        if Part(focus, True) not in parts:
            raise UsageError(f"template {text!r} leaves out {{{focus}}}; add it")
        return cls(tuple(parts), focus)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in order."""
        return tuple(text for text, is_field in self.parts if is_field)


@dataclass(frozen=True, slots=True)
class Speller:
    """Converts the fields of inputs to rows of at most ``max_length`` tokens, by a template.

    The focus is cut only if it alone is too long. ``left`` (cut at its beginning) and ``right`` share the remaining
    tokens evenly; each gets those that the other does not need. Further fields follow in order.
    """

    tokenizer: Any  # of `tokenizers`; does not truncate or pad, and tokenises special tokens as text if possible
    template: Template
    literals: Mapping[str, Sequence[int]]  # the tokens of each literal
    markers: Mapping[int, str]  # the tokens that must not come from the text of a field
    room: int  # the number of tokens that the literals leave for the fields

    @classmethod
    def of(cls, tokenizer: Any, template: Template, max_length: int) -> Self:
        """Make a speller from a tokenizer of transformers; raise UsageError if the literals fill ``max_length``."""
        backend = deepcopy(tokenizer.backend_tokenizer)
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        added = backend.get_added_tokens_decoder()
        names = (tokenizer.cls_token or tokenizer.bos_token, tokenizer.sep_token or tokenizer.eos_token)
        model_names = dict(zip(_MODEL_TOKENS, names, strict=True))

        def spell(literal: str) -> list[int]:
            if (name := model_names.get(literal, literal)) is None:
                return []
            token = backend.token_to_id(name)
            return backend.encode(name, add_special_tokens=False).ids if token is None else [token]

        literals = {text: spell(text) for text, is_field in template.parts if not is_field}
        markers = {id_: token.content for id_, token in added.items() if token.special or [id_] in literals.values()}
        markers.pop(tokenizer.unk_token_id, None)
        taken = sum(len(literals[text]) for text, is_field in template.parts if not is_field)
        if taken >= max_length:
            problem = f"max_length={max_length} leaves no room for text: the template's markers take {taken} tokens"
            raise UsageError(f"{problem}; raise max_length")
        return cls(backend, template, literals, markers, max_length - taken)

    @property
    def unknown_markers(self) -> Mapping[str, Sequence[int]]:
        """The tokens of each literal with no letter or digit at its ends, as `[START]`, that the vocabulary lacks."""
        return {
            text: ids
            for text, ids in self.literals.items()
            if ids
            and text not in _MODEL_TOKENS
            and not (text[0].isalnum() or text[-1].isalnum())
            and self.tokenizer.token_to_id(text) is None
        }

    def __call__(self, inputs: Sequence[Sequence[str]]) -> list[TokenRow]:
        """Convert inputs to rows of tokens; an input holds the texts of the template's fields, in their order."""
        return [self.row(tokens) for tokens in self.spell(inputs)]

    def spell(self, inputs: Sequence[Sequence[str]], reach: int = _CHARACTERS_A_TOKEN) -> list[FieldTokens]:
        """Tokenise the fields of inputs, as much of each as fits into a row; ``reach`` is in characters per token."""
        names, focus = self.template.fields, self.template.focus
        texts = [dict(zip(names, fields, strict=True)) for fields in inputs]
        parts = [_near(fields, focus, reach * self.room) for fields in texts]
        flat = [text for fields in parts for text in fields.values()]
        encodings = self.tokenizer.encode_batch_fast(flat, add_special_tokens=False)
        spelt = (self._unmarked(encoding.ids) for encoding in encodings)
        spellings = []
        for fields, whole, part in zip(inputs, texts, parts, strict=True):
            tokens = {name: next(spelt) for name in names}
            lengths = {n: len(tokens[n]) if len(part[n]) == len(whole[n]) else self.room for n in names}
            shares = _share(lengths, focus, self.room)
            is_short = any(shares[name] > len(tokens[name]) for name in names)
            spellings.append(self.spell([fields], 4 * reach)[0] if is_short else _cut(tokens, shares))
        return spellings

    def row(self, tokens: FieldTokens, room: int | None = None) -> TokenRow:
        """Make a row from the result of `spell`, with at most ``room`` tokens for the fields."""
        if room is not None:
            tokens = _cut(tokens, _share({name: len(ids) for name, ids in tokens.items()}, self.template.focus, room))
        row, begin, end = list[int](), 0, 0
        for text, is_field in self.template.parts:
            start = len(row)
            row += tokens[text] if is_field else self.literals[text]
            if is_field and text == self.template.focus:
                begin, end = start, len(row)
        return TokenRow(row, begin, end)

    def spell_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], npt.NDArray[np.int64]]]:
        """Tokenise whole texts; return the ids of the tokens of each text, and their offsets, (tokens, 2).

        The letters of a part that looks like a marker all have the offsets of the whole part.
        """
        rows = []
        for encoding in self.tokenizer.encode_batch(texts, add_special_tokens=False):
            ids, offsets = encoding.ids, encoding.offsets
            if not self.markers.keys().isdisjoint(ids):
                spelt = [self._unmarked([id_]) for id_ in ids]
                ids = [id_ for part in spelt for id_ in part]
                offsets = [span for span, part in zip(offsets, spelt, strict=True) for _ in part]
            rows.append((ids, np.array(offsets, np.int64).reshape(-1, 2)))
        return rows

    def _unmarked(self, ids: list[int]) -> list[int]:
        """Tokenise markers letter by letter, since some tokenizers recognise them in ordinary text."""
        spelt: dict[int, list[int]] = {}
        for id_ in self.markers.keys() & ids:
            letters = self.tokenizer.encode_batch_fast(list(self.markers[id_]), add_special_tokens=False)
            spelt[id_] = [piece for letter in letters for piece in letter.ids if piece not in self.markers]
        return [piece for id_ in ids for piece in spelt.get(id_, [id_])] if spelt else ids


def _cut(tokens: FieldTokens, shares: Mapping[str, int]) -> FieldTokens:
    """Cut fields to their shares: the left context at its beginning, the others at their end."""
    return {key: ids[len(ids) - shares[key] :] if key == "left" else ids[: shares[key]] for key, ids in tokens.items()}


def _share(lengths: Mapping[str, int], focus: str, room: int) -> dict[str, int]:
    shares: dict[str, int] = {}
    for name in (focus, "left", "right", *lengths):
        if name in lengths and name not in shares:
            reserved = min(lengths.get("right", 0), room - room // 2) if name == "left" else 0
            shares[name] = min(lengths[name], room - reserved)
            room -= shares[name]
    return shares


def _near(texts: Mapping[str, str], focus: str, reach: int) -> Mapping[str, str]:
    """Cut texts to ``reach`` characters in total, between words, on the side where their tokens will be cut."""
    shares, near = _share({name: len(text) for name, text in texts.items()}, focus, reach), dict(texts)
    for name, text in texts.items():
        if shares[name] < len(text) and name == "left":
            near[name] = "".join(text[len(text) - shares[name] :].partition(" ")[1:])
        elif shares[name] < len(text):
            near[name] = text[: shares[name]].rpartition(" ")[0]
    return near
