"""Columns as evidence: the names model and the columns of a table weigh pairs of names, without labels.

The log-odds of a pair are those of the names model, less a penalty if the names `differ` and the logarithm of how many
other rows have the name, and for each column the logarithm of m / u: how often it is as alike as here in pairs that are
one, and in pairs that are not (Fellegi and Sunter 1969). An equal value says more if it is rare. m and u are estimated
by expectation maximisation from the odds of names alone. In a step the pairs of a row compete, see `competition`, which
keeps families of similar rows (editions, branches) from counting as matches; unless most rows have several partners, or
those of one source but not of another, and the weights fit better so. If different people have one name, all names are
believed less: so much that names alone expect as many pairs to be one as names and columns, but for sources, do. All is
estimated from pairs that are near by name. Pairs that a column alone proposes are alike in it by chance, and often in
others (two shops of one house, songs of one album): u is estimated once more, among them, and so is how much their
names are believed. Sets, such as the texts that name a thing, say nothing of names that are hardly alike.

If a column is the source of a row, and sources are clean within, the final probabilities compete too, and those within
a source are small, since families of products look alike in both. With a knowledge base, its entities are further rows,
and a mention is one with at most one of them. It leads to others only if linked entities have several mentions: between
clean tables, similar rows are different, and the model `competes`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_matrix
from scipy.special import expit

from arbo.data import Corpus, KnowledgeBase
from arbo.data.arrow import codes_of
from arbo.data.columns import LEVELS, ColumnKind, cells_of, columns_named
from arbo.data.corpus import Inputs
from arbo.data.tables import Tables
from arbo.edges.features import distinct, preceding, products
from arbo.edges.model import LogOdds
from arbo.edges.names_model import ComparedNames, NamesModel
from arbo.engine import Bools, Ids, Neighbors, Weights
from arbo.retrieval.groups import fill
from arbo.retrieval.retrieval import PairScores, Reasons, Retrieval
from arbo.text.names import normalize_names

Levels = npt.NDArray[np.int8]
_MOST, _SAME = 0.8, 0.95  # least shares of values that have a kind; of digits of one length, which are codes
_RARE = 10  # most rows of a value that proposes pairs
_SHARED = (0.6, 0.4, 0.2)  # least shares of common 3-grams: nearly equal, similar, somewhat similar
_WITHIN = (0.02, 0.1, 0.3)
_SEPARATOR = re.compile(r"[\W_]+")
_PARTS = re.compile(r"\d+|[^\W\d_]{3,}")
_ITEMS = re.compile(r"\s*;\s*").split
_LONG = 40  # characters, which no date has
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_UNIT = re.compile(r"[$€£¥%]|\b(?:usd|eur|gbp)\b", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d*(?:,\d{3})*)(?:\.\d+)?(?:e[-+]?\d{1,2})?", re.IGNORECASE)
_TIME = re.compile(r"(?:\d+:)?\d{1,3}:[0-5]\d")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_YEARS, _OF_YEARS = (0, 1, 3, 10), np.array([1, 2, 4, 5, 6])  # largest differences; levels
_RARITY = 1.0  # most that the rarity of an equal value adds to its log-odds, or takes
_STEPS, _SETTLED = 100, 0.05  # most steps of expectation maximisation; largest change of log-odds in the last one
_GAIN = 0.05  # what pairs that do not compete must gain in mean log-likelihood
_OWN = 0.1  # what is left of the probability of a pair within a source, or of mentions, where entities are rows
_CLEAN, _SOME = 0.25, 0.02  # most partners of a row within a clean source; least share of rows in such, and in others
_THRESHOLD = 0.7  # largest dissimilarity of an entity, and of clusters if rows compete, but not by their sources
_PRIOR = 8.0  # number of pairs that count as if they had been seen: all one, half of them equal, or
_OF_SOURCE = np.array([0.1, 0.9])  # so many in different sources
_FITTED = "shift", "competes", "reach", "far_shift", "far_u"  # what a run keeps beside the weights
_LINKED, _ALONE = 0.5, 1.3  # least expected mentions of a linked entity; most, in the mean, of those that have one
_TO_ZERO = 0.1  # what draws a shift to 0, as so many pairs of doubtful names would
_BELIEVED = 4.0  # how much more names that are not near can be believed: what differing ones cost
_LIKELY, _OF_SETS = -2.0, 0.9  # least log-odds of names of which sets say anything; largest dissimilarity by sets alone
_INSIDE = 0.9  # of what the log-odds of a pair say, if one name is inside the other
_SILENT = ("source", "set")  # kinds of columns that propose no pairs
_LEAST = 0.02  # probability of a pair that has an edge
_MOST_ODDS = 30.0  # largest log-odds of a pair


class Column(NamedTuple):
    """The values of a column, as the model compares them."""

    name: str
    kind: ColumnKind
    value: Ids  # (rows,) the number of each row's value; -1 where it is missing
    rarity: Weights  # (values,) how much more than other values it says if both rows have it
    number: Weights  # (values,) numbers or years; NaN for none
    words: csr_matrix | None  # (values, words) 1 for each that a value of texts or codes has, or the items of sets
    grams: csr_matrix | None  # (values, 3-grams) the same, but for sets
    digits: csr_matrix | None  # (values, numbers) the words of texts that are numbers

    @classmethod
    def of(cls, name: str, kind: ColumnKind | None, cells: Sequence[str]) -> Self:
        """Read cells, "" for a missing one; guess the kind if it is None."""
        value, texts = codes_of(cells), list(dict.fromkeys(cells))
        kind = kind or _kind_of([*filter(None, texts)])
        if kind == "text":
            texts = normalize_names(texts)
        elif kind == "number":
            texts = [str(_number(text)) for text in texts]
        elif kind == "code":
            texts = [_SEPARATOR.sub("", text) for text in _dated([text.casefold() for text in texts])]
        value = np.where([cell == "" for cell in cells], -1, codes_of(texts)[value])
        texts = [text or "?" for text in dict.fromkeys(texts)]
        count = np.bincount(value[value >= 0], minlength=len(texts)).astype(np.float64)
        rarity = np.log((count @ count + 1) / (count.sum() + 1) / count.clip(1)).clip(-_RARITY, _RARITY)
        is_number = [kind == "number" or (kind == "code" and bool(_YEAR.fullmatch(text))) for text in texts]
        number = [float(text) if some else np.nan for text, some in zip(texts, is_number, strict=True)]
        words = grams = digits = None
        if kind in ("text", "code", "set") and not np.mean(is_number) > _MOST:
            from sklearn.feature_extraction.text import CountVectorizer

            reader = CountVectorizer(analyzer=_ITEMS if kind == "set" else str.split, lowercase=False, binary=True)
            words = reader.fit_transform(texts)
            digits = words[:, [kind == "text" and word.isdecimal() for word in reader.get_feature_names_out()]]
            reader = CountVectorizer(analyzer="char_wb", ngram_range=(3, 3), lowercase=False, binary=True)
            grams = None if kind == "set" else reader.fit_transform(texts)
        return cls(name, kind, value, rarity * (kind not in ("source", "set")), np.array(number), words, grams, digits)

    def levels(self, first: Ids, second: Ids) -> Levels:
        """Return the level of each pair of rows, see `LEVELS`; (pairs,)."""
        a, b = self.value[first], self.value[second]
        is_number = self.words is None and self.kind in ("number", "code")  # or years
        known = (a >= 0) & (b >= 0) & ((np.isfinite(self.number[a]) & np.isfinite(self.number[b])) | (not is_number))
        out, a, b = np.zeros(len(first), np.int8), a[known], b[known]
        if is_number:
            x, y = self.number[a] / 2, self.number[b] / 2
            most = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.finfo(np.float64).tiny)
            of_number = 1 + np.searchsorted((0, *_WITHIN), np.abs(x - y) / most)
            out[known] = of_number if self.kind == "number" else _OF_YEARS[np.searchsorted(_YEARS, np.abs(x - y) * 2)]
        elif self.words is None:
            out[known] = np.where(a == b, 1, 2)
        elif self.grams is None or self.digits is None:
            out[known] = np.where(products(self.words, self.words, a, b) > 0, 1, 2)
        else:  # lower if each has a number of its own
            shared, size = products(self.grams, self.grams, a, b), np.diff(self.grams.indptr)
            of_share = [shared / np.maximum(size[a] + size[b] - shared, 1) >= least for least in _SHARED]
            level = np.select([a == b, of_share[0], _inside(self.words, a, b), *of_share[1:]], range(1, 6), 6)
            out[known] = np.where((level == 1) | _inside(self.digits, a, b), level, np.where(level < 5, 5, 6))
        return out

    def pairs(self, name: Ids, is_blank: npt.NDArray[np.bool_]) -> tuple[Ids, Ids]:
        """Return the pairs of rows with an equal rare value, or with an equal value and an equal ``name``, (rows,)."""
        value = np.where(is_blank, -1, self.value)
        count = np.bincount(value[value >= 0], minlength=1)
        is_rare = (value >= 0) & (count[value] <= _RARE)
        key = np.where(is_rare, value, len(count) + value * (name.max(initial=0) + 1) + name)
        row = np.flatnonzero(value >= 0)
        _, which, size = np.unique(key[row], return_inverse=True, return_counts=True)
        row = row[size[which] <= _RARE]
        return preceding(row, key[row], row, _RARE)


class ColumnWeights(NamedTuple):
    """What a column says of a pair: a value for each of its `LEVELS`."""

    column: str
    kind: ColumnKind
    m: list[float]  # the share of pairs that are one
    u: list[float]  # the share of pairs that are not

    @property
    def log_odds(self) -> LogOdds:
        """(levels + 1,) the logarithm of m / u; 0 for a missing value."""
        return np.concatenate([[0.0], np.log(self.m) - np.log(self.u)])

    @classmethod
    def estimated(cls, probability: LogOdds, column: Column, near: Self | None, levels: Levels) -> Self:
        """Estimate the shares from the probabilities of pairs that they are one; if they are far, m is as ``near``."""
        n = len(LEVELS[column.kind])
        u = np.bincount(levels, 1 - probability, n + 1)[1:] + (near.u if near else 1.0)
        u /= u.sum()
        prior = _OF_SOURCE if column.kind == "source" else (u + np.eye(n)[0]) / 2
        m = np.bincount(levels, probability, n + 1)[1:] + _PRIOR * prior
        return cls(column.name, column.kind, near.m if near else (m / m.sum()).tolist(), u.tolist())


class Pairs(NamedTuple):
    """Pairs of compared names."""

    first: Ids
    second: Ids
    score: LogOdds  # the log-odds of the names model
    name: LogOdds  # the same, less the logarithm of the number of other rows with the name
    is_far: Bools  # whether neither name is a neighbour of the other
    levels: list[Levels]  # of each column
    rarity: list[LogOdds]  # of the values of each column, if they are equal; 0 for far names, which rare ones propose

    def where(self, some: Bools) -> Pairs:
        """Return some of the pairs."""
        parts: Any = ([one[some] for one in part] if isinstance(part, list) else part[some] for part in self)
        return Pairs(*parts)

    def total(self, weights: Sequence[ColumnWeights], shift: float) -> LogOdds:
        """Return the log-odds of names and columns; without weights, those of names alone."""
        columns = zip(weights, self.levels, self.rarity, strict=False)
        return sum((one.log_odds[some] + rarity for one, some, rarity in columns), self.name + shift)

    def likelihood(self, weights: Sequence[ColumnWeights], shift: float) -> float:
        """Return the mean logarithm of the probability of the levels."""
        likelihood = np.logaddexp(self.total(weights, shift), 0) - np.logaddexp(self.name + shift, 0)
        likelihood += sum(np.log([1, *one.u])[some] for one, some in zip(weights, self.levels, strict=True))
        return float(likelihood.mean()) if len(likelihood) else 0.0


def competition(pairs: Pairs, source: Ids) -> Callable[[LogOdds], LogOdds]:
    """Return what computes the probabilities of pairs from their log-odds, where some pairs exclude each other.

    A row is one with at most one row of another source, or, which is rare, of its own. ``source`` is (names,).
    """
    row, other = np.concatenate([pairs.first, pairs.second]), np.concatenate([pairs.second, pairs.first])
    n = int(source.max(initial=0)) + 1
    keys = np.stack([row * n + source[other], row * n + source[row]])  # a row with the source of the other end, its own
    by_source, own = np.unique(keys, return_inverse=True)[1].reshape(2, -1)
    is_own, n_keys = source[row] == source[other], own.max(initial=-1) + 1
    rarely = np.where((n > 1) & is_own[: len(pairs.first)], _OWN, 1)

    def probabilities(log_odds: LogOdds) -> LogOdds:
        odds = np.exp(log_odds.clip(-_MOST_ODDS, _MOST_ODDS))
        both = np.tile(odds, 2)
        of_row, of_source = np.bincount(row, both), np.bincount(by_source, both, minlength=n_keys)
        first, second = np.split(np.where(is_own, of_row[row], of_source[by_source] + of_source[own]), 2)
        return np.asarray(rarely * odds / (1 + first + second - odds))

    return probabilities


def assignment(pairs: Pairs, is_entity: Bools) -> Callable[[LogOdds], LogOdds]:
    """Return what computes the probabilities of pairs, if a mention is one with at most one entity; see `competition`.

    ``is_entity`` is (names,); the entities come after the mentions.
    """
    has_entity, n = is_entity[pairs.second], len(is_entity)

    def probabilities(log_odds: LogOdds) -> LogOdds:
        odds = np.exp(log_odds.clip(-_MOST_ODDS, _MOST_ODDS))
        of_mention = np.bincount(pairs.first, np.where(has_entity, odds, 0), minlength=n)
        return np.asarray(odds / (1 + np.where(has_entity, of_mention[pairs.first], odds)))

    return probabilities


def distinction(pairs: Pairs, names: Sequence[str]) -> LogOdds:
    """Return how sure pairs are at most: less if one name is inside the other, since a text may tell them apart."""
    texts, name = Column.of("names", "text", names), codes_of(names)
    a, b = texts.value[pairs.first], texts.value[pairs.second]
    counts = (a != b) | (name[pairs.first] == name[pairs.second])  # nodes of one name differ in type, if one has none
    return np.where(counts & _inside(texts.words, a, b), _INSIDE, 1.0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Weighs pairs of names by the names model and by columns, see this module."""

    names: NamesModel
    columns: str  # the setting `LinkerConfig.evidence`
    weights: tuple[ColumnWeights, ...] = ()  # of the columns; empty to estimate all from the names at hand
    shift: float = 0.0  # is added to the log-odds of names; below 0 if different things have names that are alike
    competes: bool = True  # whether the pairs of a row compete
    far_shift: float = 0.0  # `shift` for pairs that are not near by name
    far_u: Sequence[Sequence[float]] = ()  # and `u` of each column
    reach: float = 0.0  # the estimated share of right pairs that names or columns propose; 0 if no column proposes any
    neighbors: ClassVar[int] = NamesModel.neighbors

    def frozen(self, settings: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the model with the weights of these `settings`, and the arrays, which a run keeps."""
        weights = tuple(ColumnWeights(**one) for one in settings["columns"])
        columns, names = ",".join(f"{one.column}:{one.kind}" for one in weights), self.names.frozen(settings, arrays)
        how: Any = {name: settings[name] for name in _FITTED}
        return replace(self, names=names, columns=columns, weights=weights, **how)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The values that identify the model in a manifest."""
        columns = [one._asdict() for one in self.weights]
        own = {**self.names.settings, "columns": columns, **{name: getattr(self, name) for name in _FITTED}}
        return {**own, "fingerprint": sha256(json.dumps(own).encode()).hexdigest()}

    def applied(self, retrieval: Retrieval, kb: KnowledgeBase | None, k: int) -> Retrieval:
        """Return the retrieval with the weights of this model, as `NamesModel.applied` does; ``kb`` may be there."""
        rows = retrieval if kb is None else _with_entities(retrieval, kb)
        names, n = ComparedNames.of(rows, self.names.earlier), len(retrieval.inputs)
        named, is_entity = columns_named(self.columns), names.rows >= n
        cells = cells_of(rows.inputs, named, check=not self.weights)
        columns = [Column.of(name, kind, [cells[name][row] for row in names.rows.tolist()]) for name, kind in named]
        pairs, by_column = self._pairs(names, columns, rows, n)
        sources = [column.value for column in columns if column.kind == "source"]
        source = np.unique(sources[0] if sources else 0 * names.rows, return_inverse=True)[1]
        if kb is None:
            model = self if self.weights else self._estimated(columns, pairs, source)
            excluded = competition(pairs, source) if model.competes and sources else expit
        else:
            model = self if self.weights else self._for_links(columns, pairs, is_entity)
            excluded = assignment(pairs, is_entity)
        probability = excluded(sum(model._parts(pairs), np.zeros(1)))
        is_of_sets = all(column.kind == "set" for column in columns)
        threshold = _OF_SETS if is_of_sets else _THRESHOLD if model.competes and not sources else self.names.threshold
        probability *= distinction(pairs, names.names) if is_of_sets else 1
        if not self.weights:  # two samples of the right pairs, of which some are in both
            near = ~pairs.is_far
            name, column, both = (probability @ some for some in (near, by_column, near & by_column))
            reach = (name + column - both) * both / max(name * column, 1e-9)
            model = replace(model, reach=round(min(float(reach), 1.0), 3))
        weight = np.where(probability >= _LEAST, np.float32(1) - probability, 1).astype(np.float32)
        of_entity, reasons = is_entity[pairs.second], partial(model._shares, names, columns)
        if kb is not None and model.competes:  # a linked mention leads to no other
            linked = np.bincount(pairs.first, of_entity & (weight <= _THRESHOLD), minlength=len(is_entity)) > 0
            weight[~of_entity & (linked[pairs.first] | linked[pairs.second])] = 1
        scored = PairScores(np.column_stack([pairs.first, pairs.second])[~of_entity], pairs.score[~of_entity])
        retrieval = replace(retrieval, links=None)  # what a missing cell means may have changed
        weighed = names.weighed(retrieval, k, scored, weight[~of_entity], model.settings, threshold, reasons)
        if kb is None:
            return weighed
        joins, lists = of_entity & (weight < 1), Neighbors.empty(n, retrieval.entities.ids.shape[1])
        fill(lists, names.rows[pairs.first[joins]], names.rows[pairs.second[joins]] - n, weight[joins])
        shown, how = cast("Any", weighed.reasons), dict[str, Any](threshold=(_THRESHOLD, threshold))
        how["reasons"] = lambda node, to: shown(np.where(node < len(kb), node + n, node - len(kb)), to)
        how["distance"] = lambda mention, _: np.ones(len(mention), np.float32)  # others have the probability 0
        return replace(weighed, entities=lists, **how)

    def _estimated(self, columns: Sequence[Column], pairs: Pairs, source: Ids) -> Self:
        """Return the model that fits pairs; ``source`` is (names,)."""
        near = pairs.where(~pairs.is_far)
        free = self._fitted(columns, near, expit)
        if all(column.kind == "set" for column in columns):
            return replace(free, competes=False)._with_far(columns, pairs)
        competing = self._fitted(columns, near, competition(near, source))
        one, other = (near.likelihood(model.weights, model.shift) for model in (competing, free))
        match, n = expit(near.total(free.weights, free.shift)), np.bincount(source, minlength=1)
        within = np.where(source[near.first] == source[near.second], match, 0)
        partners = 2 * np.bincount(source[near.first], within, len(n)) / n.clip(1)
        several = _SOME < np.average(partners < _CLEAN, weights=n + 1) < 1 - _SOME if len(n) > 1 else partners[0] > 2
        best = replace(free, competes=False) if several and other > one + _GAIN * (len(n) == 1) else competing
        return best._with_far(columns, pairs)

    def _for_links(self, columns: Sequence[Column], pairs: Pairs, is_entity: Bools) -> Self:
        """Return the model that fits pairs, if a mention is one with at most one entity; see this module."""
        near = pairs.where(~pairs.is_far)
        excluded, rarely = assignment(near, is_entity), np.where(is_entity[near.second], 1, _OWN)
        model = self._fitted(columns, near, lambda log_odds: excluded(log_odds) * rarely)._with_far(columns, pairs)
        probability = assignment(pairs, is_entity)(sum(model._parts(pairs), np.zeros(1)))
        expected = np.bincount(pairs.second, is_entity[pairs.second] * probability)
        linked = expected[expected > _LINKED]
        return replace(model, competes=bool(linked.sum() <= _ALONE * len(linked)))

    def _fitted(self, columns: Sequence[Column], pairs: Pairs, probabilities: Callable[[LogOdds], LogOdds]) -> Self:
        """Return the model with the weights and the shift that fit pairs; if it has weights, m is theirs."""
        most, near = (self.shift + _BELIEVED, self.weights) if self.weights else (0.0, [None] * len(columns))
        model, log_odds = self, pairs.total(self.weights, self.shift)
        for _ in range(_STEPS):
            p = probabilities(log_odds)
            weights = [ColumnWeights.estimated(p, *of) for of in zip(columns, near, pairs.levels, strict=True)]
            others = [one._replace(m=one.u) if one.kind == "source" else one for one in model.weights]
            shift = min(model.shift + _step(pairs.name, model.shift, pairs.total(others, model.shift)), most)
            model = replace(model, weights=tuple(weights), shift=shift)
            before, log_odds = log_odds, pairs.total(model.weights, model.shift)
            if np.abs(log_odds - before).max(initial=0) < _SETTLED:
                break
        return model

    def _with_far(self, columns: Sequence[Column], pairs: Pairs) -> Self:
        """Return the model with what fits the pairs whose names are not near; m is the same."""
        far = self._fitted(columns, pairs.where(pairs.is_far), expit)
        return replace(self, far_shift=far.shift, far_u=[one.u for one in far.weights])

    def _parts(self, pairs: Pairs) -> list[LogOdds]:
        """Return the log-odds of names and of each column."""
        parts = [pairs.name + np.where(pairs.is_far, self.far_shift, self.shift)]
        for weights, u, levels, rarity in zip(self.weights, self.far_u, pairs.levels, pairs.rarity, strict=True):
            far = weights._replace(u=list(u)).log_odds
            parts.append(np.where(pairs.is_far, far[levels], weights.log_odds[levels]) + rarity)
        return parts

    def _pairs(self, names: ComparedNames, columns: Sequence[Column], rows: Retrieval, n: int) -> tuple[Pairs, Any]:
        """Return the pairs that names or columns propose for ``n`` mentions, and which the columns did; (pairs,)."""
        inputs = rows.inputs.taken(names.rows)
        is_blank = inputs.corpus.tables.is_blank[inputs.rows]
        group, name = codes_of([rows.groups[row] for row in names.rows.tolist()]), codes_of(inputs.names)
        proposed = [names.pairs(), *(column.pairs(name, is_blank) for column in columns if column.kind not in _SILENT)]
        first, second = map(np.concatenate, zip(*proposed, strict=True))
        first, second = distinct(first, second, len(name))
        inside = (group[first] == group[second]) & (names.rows[first] < n)
        first, second = first[inside], second[inside]
        key, *keys = (a * len(name) + b for a, b in [(first, second), *([] if self.weights else proposed[1:])])
        return self._compared(names, columns, first, second), np.isin(key, np.concatenate([key[:0], *keys]))

    def _compared(self, names: ComparedNames, columns: Sequence[Column], first: Ids, second: Ids) -> Pairs:
        score = names.scores(np.column_stack([first, second]), self.names.log_odds)
        levels = [one.levels(first, second) * ((score >= _LIKELY) | (one.kind != "set")) for one in columns]
        is_far, name = ~names.near(first, second), codes_of(names.names)
        others = np.bincount(name)[name] - 1
        common = np.log(np.maximum(others[first], others[second]).clip(1))
        rarity = [(~is_far & (levels[i] == 1)) * one.rarity[one.value[first]] for i, one in enumerate(columns)]
        return Pairs(first, second, score, score - common, is_far, levels, rarity)

    def _shares(self, names: ComparedNames, columns: Sequence[Column], first: Ids, second: Ids) -> Reasons:
        """Return the log-odds of names and columns for pairs of names, the largest first."""
        pairs = self._compared(names, columns, first, second)
        texts = [np.full(len(first), "names", object)]
        for weights, levels in zip(self.weights, pairs.levels, strict=True):
            words = np.array(["missing", *LEVELS[weights.kind]], object)
            texts.append(weights.column + ": " + words[levels])
        return Reasons.of(np.stack(texts, axis=1), np.stack(self._parts(pairs), axis=1))


def _step(name: LogOdds, shift: float, log_odds: LogOdds) -> float:
    """Return what to add to a shift, so that names alone expect as many pairs as with columns; few pairs add little."""
    alone = expit(name + shift)
    step = (expit(log_odds) - alone).sum() - _TO_ZERO * shift
    return float(np.clip(step / ((alone * (1 - alone)).sum() + _TO_ZERO), -1, 1))


def _with_entities(retrieval: Retrieval, kb: KnowledgeBase) -> Retrieval:
    """Return a retrieval whose mentions are followed by the entities, each with its nearest mentions."""
    inputs, near, n = retrieval.inputs, retrieval.entities, len(retrieval.inputs)
    ids, names, domains, metadata = (kb.table[name].to_pylist() for name in ("id", "name", "domain", "metadata"))
    more = Tables.of_names(ids, names, metadata)
    more = replace(more, documents=more.documents.set_column(1, "domain", pa.array(domains, pa.string())))
    rows = np.append(inputs.rows, inputs.corpus.n_mentions + np.arange(len(kb)))
    lists = Neighbors.empty(n + len(kb), Evidence.neighbors)
    for some, first in ((retrieval.mentions, 0), (near, n)):
        row, column = np.nonzero(some.ids >= 0)
        fill(lists, row, first + some.ids[row, column], some.dissimilarity[row, column])
    fill(lists, n + near.ids[row, column], row, near.dissimilarity[row, column])
    corpus = Corpus(Tables.joined([inputs.corpus.tables, more]))
    how: Any = {"inputs": Inputs(corpus, rows), "groups": [*retrieval.groups, *domains]}
    return replace(retrieval, **how, mentions=lists, as_before=None)  # entities in the lists may have changed


def _kind_of(texts: Sequence[str]) -> ColumnKind:
    """Guess the kind of values: numbers, codes, which are mostly digits, or texts."""
    lengths = Counter(len(text) for text in texts if text.isdecimal() and len(text) > 3)
    if max(lengths.values(), default=0) > _SAME * len(texts):
        return "code"  # years, dates, postcodes
    if np.mean([np.isfinite(_number(text)) for text in texts]) > _MOST:
        return "number"
    is_code = [2 * sum(map(str.isdigit, s)) >= sum(map(str.isalnum, s)) or bool(_date(s.casefold())) for s in texts]
    return "code" if np.mean(is_code) > _MOST else "text"


def _dated(texts: list[str]) -> list[str]:
    """Return texts with dates, if most are dates in some form, as eight digits, the year first.

    >>> _dated(["1985-03-02", "2/3/1985", "march 2, 1985", "31.3.1985"])
    ['19850302', '19850302', '19850302', '19850331']
    """
    dates = [*map(_date, texts)]
    known = [date for date in dates if date]
    if len(known) <= _MOST * sum(map(bool, texts)):
        return texts
    plain = [date for date in known if date[3]]
    month_first = sum(month > 12 for _, month, _, _ in plain) > sum(day > 12 for day, _, _, _ in plain)
    written = list[str]()
    for text, date in zip(texts, dates, strict=True):
        day, month, year, is_plain = date or (0, 0, 0, False)
        if month > 12 or (month_first and is_plain and day <= 12):
            day, month = month, day
        written.append(f"{year}{month:02}{day:02}" if date else text)
    return written


def _date(text: str) -> tuple[int, int, int, bool] | None:
    """Return the day, month and year of a date, and whether day and month may be exchanged; None for no date."""
    parts = _PARTS.findall(text) if len(text) < _LONG else []
    if len(parts) != 3:
        return None
    is_plain = all(map(str.isdecimal, parts)) and len(parts[0]) < 4
    parts = parts[::-1] if len(parts[0]) == 4 else parts
    parts = [parts[1], parts[0], parts[2]] if parts[0].isalpha() else parts
    month = _MONTHS.find(parts[1][:3]) // 3 + 1 if parts[1].isalpha() else int(parts[1])
    day, year = (int(part) if part.isdecimal() else 0 for part in (parts[0], parts[2]))
    year += (1900 if year > 68 else 2000) if parts[1].isalpha() and len(parts[2]) == 2 else 0  # as POSIX reads them
    is_date = 0 < min(day, month) <= 12 and max(day, month) <= 31 and 1000 <= year <= 9999
    return (day, month, year, is_plain) if is_date else None


def _number(text: str) -> float:
    text = _UNIT.sub("", text).strip()
    if _TIME.fullmatch(text):  # in seconds
        return sum(60.0**place * int(part) for place, part in enumerate(reversed(text.split(":"))))
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else np.nan


def _inside(words: csr_matrix, a: Ids, b: Ids) -> Bools:
    """Return whether the words of one text of a pair are among those of the other; (pairs,)."""
    size = np.diff(words.indptr)
    return np.asarray(products(words, words, a, b) == np.minimum(size[a], size[b]))
