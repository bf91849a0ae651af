"""Documents in lines of JSON as columns, without an object for each: a third of the time."""

import json
import re
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from arbo.data.arrow import numbers, starts, strings
from arbo.data.objects import DOCUMENT_KEYS
from arbo.data.tables import Tables

_OF_MENTIONS = "id", "spans", "type", "entities", "cluster"
_DECODER: Any = json.JSONDecoder()
_SPACED = re.compile(r'"\s+:')


def tables_of_lines(text: str) -> Tables:
    """Return the tables of documents, one a line, whose mentions have ids, one span each, and keys of `_OF_MENTIONS`.

    Raise some error for all other lines, also if one is blank or may be wrong: what makes objects of them knows the
    problem. Ids may be repeated. The last line has no line end.
    """
    lines = text.split("\n")
    documents, ends = zip(*map(_DECODER.scan_once, lines, repeat(0)), strict=True)  # up to a line that is no JSON
    lists = [one.get("mentions") for one in documents]
    size, mentions = np.array([len(one or ()) for one in lists]), [one for some in lists for one in some or ()]
    keys = [*map(tuple, documents)], [*map(tuple, mentions)]
    ids, texts, domains = ([one.get(key) for one in documents] for key in ("id", "text", "domain"))
    names, spans, kinds, gold, clusters = ([one.get(key) for one in mentions] for key in _OF_MENTIONS)
    (pairs,), golds = zip(*spans, strict=True) if spans else ((),), [some for some in gold if some is not None]
    home, bounds = np.repeat(np.arange(len(ids)), size), [end for pair in pairs for end in pair]
    begin, end = where = np.array(bounds, np.int64).reshape(-1, 2).T
    own = [*ids, *names, *chain(*golds), *(name for name in clusters if name is not None)]
    fits = [*ends] == [*map(len, lines)] and {*map(type, lists)} <= {list, type(None)}
    fits &= {*chain(*{*keys[0]})} <= DOCUMENT_KEYS.keys() and {*chain(*{*keys[1]})} <= {*_OF_MENTIONS}
    fits &= text.count('":') == sum(map(len, chain(*keys))) and not _SPACED.search(text)  # no key is repeated
    fits &= "\\u0000" not in text and {*map(len, pairs)} <= {2} and {*map(type, bounds)} <= {int}
    fits &= {*map(type, golds)} <= {list} and all(map(str.strip, own))
    if not fits or ((begin < 0) | (begin >= end) | (end > np.array([*map(len, texts)])[home])).any():
        raise ValueError
    pieces = zip(home.tolist(), *where.tolist(), strict=True)
    columns = {"mention_id": strings(names), "document_id": strings(ids).take(numbers(home))}
    offsets = pa.StructArray.from_arrays([*map(numbers, where.astype(np.int32))], ["start", "end"])
    columns["spans"] = pa.ListArray.from_arrays(starts(np.ones(len(home), np.int64)), offsets)
    columns |= {"text": strings([texts[row][first:last] for row, first, last in pieces]), "type": strings(kinds)}
    columns |= {"domain": strings(domains).take(numbers(home)), "gold": pa.array(gold, pa.list_(pa.string()))}
    columns |= {"found_score": pa.nulls(len(home), pa.float64())}
    columns |= {"cluster": strings(clusters)} if any(clusters) else {}
    of = {"document_id": strings(ids), "domain": strings(domains), "text": pa.array(texts, pa.large_string())}
    return Tables(pa.table(of), pa.table(columns), size)
