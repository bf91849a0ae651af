"""Train a tagger (`arbo.spans.tagger`) on documents with marked mentions, in about a minute.

The weights maximise the likelihood of the labels with a penalty on their squares, by L-BFGS. The dictionary has the
names of all mentions of the documents when the tagger is used. In training it has, for each document, only those of the
documents of other parts: otherwise all mentions would be names of the dictionary, and nothing else would be learnt.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from arbo.data import Corpus, KnowledgeBase, learnt_from, mention_inputs
from arbo.engine import Ids
from arbo.errors import DataError
from arbo.progress import Announce, on_screen
from arbo.spans.finding import Place
from arbo.spans.tagger import COLUMNS, INSIDE, NEVER, OUTSIDE, Chains, KnownNames, Scores, Tagger, Tokens

_PARTS = 5
_LEAST = 2  # occurrences of a feature that has a weight
_PENALTY = 1.0
_DIGITS = 4  # of a weight, so that the file of a tagger is small
_STEPS = 120


def train_tagger(
    documents: Iterable[Any], kb: KnowledgeBase, *, expand_abbreviations: bool = True, announce: Announce = on_screen
) -> Tagger:
    """Train a tagger on documents with marked mentions; gold ids are not used.

    ``kb`` is the knowledge base without the names of these documents. Raise DataError if no word is marked.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> tagger = arbo.train_tagger(documents[:60], kb)
    >>> [mention.text for mention in arbo.find_mentions(tagger, documents[60:61], kb).mentions]
    ['sickle dolphins', 'Lantern Point', 'RV Petrel', 'Quiet Engine Trial', 'Joan Aldis']
    """
    corpus, known = Corpus.of(documents), KnownNames.of(kb, abbreviations=expand_abbreviations)
    names = mention_inputs(corpus, expand_abbreviations=expand_abbreviations).names
    tokens = Tokens.of(corpus)
    marked = ((row, mention.spans) for row, document in enumerate(corpus) for mention in document.mentions)
    if not (gold := tokens.labels((row, spans[0][0], spans[-1][1]) for row, spans in marked)).any():
        raise DataError("a tagger learns from marked mentions, but the documents have none; give annotated documents")
    columns = tokens.columns(known, tokens.labels(_places_in_parts(corpus, known, names)))
    weights, pairs = fit(columns, gold, Chains.of(tokens.sentence), announce)
    kept, learnt = sorted(set(names)), learnt_from(corpus.tables)
    return Tagger(weights.round(_DIGITS), pairs.round(_DIGITS), kept, learnt, abbreviations=expand_abbreviations)


def _places_in_parts(corpus: Corpus, known: KnownNames, names: Sequence[str]) -> Iterator[Place]:
    """Yield the places of names that a dictionary has, or mentions in other parts of the documents."""
    part = corpus.tables.home % _PARTS
    for one in range(min(_PARTS, len(corpus))):
        named = known.with_names(sorted({names[row] for row in np.flatnonzero(part != one).tolist()}))
        yield from ((row * _PARTS + one, begin, end) for row, begin, end in named.matches(corpus[one::_PARTS]))


def fit(columns: Ids, gold: Ids, chains: Chains, announce: Announce) -> tuple[Scores, Scores]:
    """Return the weights of columns, (COLUMNS, 3), and of pairs of labels, (3, 3), with the best likelihood.

    ``columns`` has the shape (tokens, features), ``gold`` the labels. A column that occurs once has no weight.
    """
    used = np.flatnonzero(np.bincount(columns.ravel(), minlength=COLUMNS) >= min(_LEAST, len(gold)))
    start = np.arange(0, columns.size + 1, columns.shape[1])
    matrix = csr_matrix((np.ones(columns.size), columns.ravel(), start), (len(columns), COLUMNS))[:, used]
    matrix.sum_duplicates()
    truth, size = np.eye(3)[gold], 3 * len(used)
    follows = np.zeros((3, 3))
    for tokens in chains.steps[1:]:
        np.add.at(follows, (gold[tokens - 1], gold[tokens]), 1)
    barred = np.zeros((3, 3))
    barred[OUTSIDE, INSIDE] = NEVER

    def loss(values: Any) -> tuple[float, Any]:
        weights, pairs = values[:size].reshape(-1, 3), values[size:].reshape(3, 3)
        scores = matrix @ weights
        total, labels, expected = chains.marginals(scores, pairs + barred)
        lost = total - (scores * truth).sum() - (pairs * follows).sum() + _PENALTY / 2 * (values @ values)
        slope = np.concatenate([(matrix.T @ (labels - truth)).ravel(), (expected - follows).ravel()])
        return lost, slope + _PENALTY * values

    bar = iter(announce("training the tagger")(range(_STEPS), _STEPS))
    how: Any = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": _STEPS - 1, "maxcor": 6}}
    best = minimize(loss, np.zeros(size + 9), callback=lambda _: next(bar, None), **how)
    weights = np.zeros((COLUMNS, 3))
    weights[used] = best.x[:size].reshape(-1, 3)
    return weights, best.x[size:].reshape(3, 3) + barred
