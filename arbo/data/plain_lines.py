"""Documents in lines of JSON as columns, without an object for each: a third of the time."""

import json
import re
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from arbo.data.arrow import numbers, starts, strings
from arbo.data.objects import DOCUMENT_KEYS
from arbo.data.rows import are_storable
from arbo.data.tables import Tables

_OF_MENTIONS = "id", "spans", "type", "entities", "cluster"
_DECODER: Any = json.JSONDecoder()
_SPACED = re.compile(r'"\s+:')


def tables_of_lines(text: str) -> Tables | None:
    """Return the tables of documents, one a line, whose mentions have ids, one span each, and keys of `_OF_MENTIONS`.

    Return None for all other lines, also if one is blank or may be wrong: what makes objects of them knows the error.
    Ids may be repeated. The last line has no line end.
    """
    try:
        return _tables(text)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _tables(text: str) -> Tables:
    """Return the tables of lines; raise an error if they are not plain."""
    lines = text.split("\n")
    parsed = [*map(_DECODER.scan_once, lines, repeat(0))]  # which ends at a line that is no JSON
    _check(len(parsed) == len(lines))
    documents, ends = zip(*parsed, strict=True)
    _check([*ends] == [*map(len, lines)], _are(dict, documents))
    lists = [one.get("mentions") for one in documents]
    _check(_are(list, _given(lists)))
    size, mentions = np.array([len(one or ()) for one in lists]), [*chain(*_given(lists))]
    _check(_are(dict, mentions))
    keys = [*map(tuple, documents)], [*map(tuple, mentions)]
    _check({*chain(*{*keys[0]})} <= DOCUMENT_KEYS.keys(), {*chain(*{*keys[1]})} <= {*_OF_MENTIONS})
    _check(text.count('":') == sum(map(len, chain(*keys))), not _SPACED.search(text))  # or a key is repeated
    ids, texts, domains = ([one.get(key) for one in documents] for key in ("id", "text", "domain"))
    names, spans, kinds, gold, clusters = ([one.get(key) for one in mentions] for key in _OF_MENTIONS)
    _check(_are(list, spans), _are(list, _given(gold)), _are(list, pairs := [*chain(*spans)]))
    _check({*map(len, spans)} <= {1}, {*map(len, pairs)} <= {2}, _are(int, bounds := [*chain(*pairs)]))
    own = [*ids, *names, *chain(*_given(gold)), *_given(clusters)]
    every = [*own, *texts, *_given(domains), *_given(kinds)]
    _check(_are(str, every), "\\u" not in text or are_storable(every))
    _check(all(map(str.strip, own)))
    home, where = np.repeat(np.arange(len(ids)), size), np.array(bounds, np.int64).reshape(-1, 2)
    begin, end = where.T
    _check(((begin >= 0) & (begin < end) & (end <= np.array([*map(len, texts)])[home])).all())
    pieces = zip(home.tolist(), *where.T.tolist(), strict=True)
    columns = {"mention_id": strings(names), "document_id": strings(ids).take(numbers(home))}
    offsets = pa.StructArray.from_arrays([*map(numbers, where.T.astype(np.int32))], ["start", "end"])
    columns["spans"] = pa.ListArray.from_arrays(starts(np.ones(len(home), np.int64)), offsets)
    columns |= {"text": strings([texts[row][first:last] for row, first, last in pieces]), "type": strings(kinds)}
    columns |= {"domain": strings(domains).take(numbers(home)), "gold": pa.array(gold, pa.list_(pa.string()))}
    columns |= {"found_score": pa.nulls(len(home), pa.float64()), "cluster": strings(clusters)}
    if not any(clusters):
        del columns["cluster"]
    of = {"document_id": strings(ids), "domain": strings(domains), "text": pa.array(texts, pa.large_string())}
    return Tables(pa.table(of), pa.table(columns), size)


def _check(*truths: Any) -> None:
    if not all(truths):
        raise ValueError


def _are(kind: type, values: Iterable[Any]) -> bool:
    return {*map(type, values)} <= {kind}


def _given(values: Iterable[Any]) -> list[Any]:
    return [one for one in values if one is not None]
