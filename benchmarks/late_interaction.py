r"""Search by late interaction (sum of maxima): what a first stage on pooled vectors misses, and what it saves.

300 mentions of NCBI disease (test part) and 5,000 names of MEDIC, each name a thing of its own: all names of the
mentions' entities, as far as they fit, and others drawn at random. Vectors are those of all tokens of the untrained
all-MiniLM-L6-v2, of length 1; mentions are read without context.

`recall_at_1` and `recall_at_10` are the shares of the best names by score of all pairs that the candidates of the
first stage hold, 16, 64 or 256 of them; `seconds` is both stages, on all cores. **first stage** compares the metrics
of the pooled vectors. **accuracy**: the share of the mentions whose best name is one of a gold entity's, by the score
of all tokens, of words alone (without [CLS] and [SEP]), and by the cosine of pooled vectors; mentions whose concept
the knowledge base lacks are left out.

`--quick` takes 60 mentions and 500 names, prints the figures and leaves the results alone.
"""

import json
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from library.command import parser_of
from library.corpora import JOBS
from library.results import Figures, Row, Tables, record
from library.timing import seconds

import arbo
from arbo.data.inputs import MentionInput, mention_inputs
from clustering.comparison import share_found
from clustering.knn import Neighbors, nearest
from clustering.late_interaction import TokenMatrices, late_nearest
from clustering.vectors import METRICS

CANDIDATES = (16, 64, 256)
AT = (1, 10)

Bools = npt.NDArray[np.bool_]


def chosen(n_mentions: int, n_names: int, seed: int = 0) -> tuple[list[MentionInput], arbo.KnowledgeBase, Bools]:
    """Draw mentions and names, each as an entity; and which name is right for which mention."""
    job = JOBS["NCBI disease"]
    kb = job.knowledge_base()
    rng = np.random.default_rng(seed)
    inputs = mention_inputs(job.documents(job.test), expand_abbreviations=True)
    gold = [{row for id_ in item.mention.gold or () for row in kb.rows(id_)} for item in inputs]
    drawn = np.sort(rng.choice([i for i, rows in enumerate(gold) if rows], n_mentions, replace=False))
    names, owner = kb.names()
    is_gold = np.isin(owner, list(set().union(*(gold[i] for i in drawn))))
    first = np.lexsort((rng.random(len(names)), ~is_gold))
    kept = np.sort(first[:n_names])
    things = arbo.KnowledgeBase([arbo.Entity(str(place), names[place]) for place in kept])
    right = np.array([np.isin(np.asarray(owner)[kept], list(gold[i])) for i in drawn])
    return [inputs[i] for i in drawn], things, right


def words(things: TokenMatrices) -> TokenMatrices:
    """Leave out the first and the last token of each text, [CLS] and [SEP]."""
    is_word = np.ones(len(things.matrix), np.bool_)
    is_word[[things.indptr[:-1], things.indptr[1:] - 1]] = False
    count = np.diff(things.indptr) - 2
    return replace(things, matrix=things.matrix[is_word], indptr=np.concatenate([[0], np.cumsum(count)]))


def accuracy(found: Neighbors, right: Bools) -> float:
    """Share of the mentions whose first name is right."""
    return float(right[np.arange(len(right)), found.ids[:, 0]].mean())


def measure(n_mentions: int, n_names: int) -> tuple[Figures, Tables]:
    """Run every search on one sample."""
    inputs, things, right = chosen(n_mentions, n_names)
    encoder = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", arbo.EncoderConfig(pooling="tokens"))
    queries, corpus = encoder.encode_mentions(inputs), encoder.encode_entities(things)
    assert isinstance(queries, TokenMatrices)
    assert isinstance(corpus, TokenMatrices)
    queries, corpus = queries.normalized(), corpus.normalized()
    late_nearest(queries, corpus, 1, n_candidates=1)  # compiles the kernels
    spent, exact = seconds(late_nearest, queries, corpus, max(AT), n_candidates=None)
    figures = {
        "mentions": len(queries),
        "names": len(corpus),
        "tokens_a_mention": len(queries.matrix) / (len(queries.indptr) - 1),
        "tokens_a_name": len(corpus.matrix) / (len(corpus.indptr) - 1),
        "all.seconds": spent,
    }
    rows: list[Row] = []
    for metric in METRICS:
        reference = late_nearest(queries, corpus, max(AT), n_candidates=None, metric=metric)
        for n in CANDIDATES:
            spent, found = seconds(late_nearest, queries, corpus, max(AT), n_candidates=n, metric=metric)
            recall = {
                f"recall_at_{k}": share_found(found.first(k).dissimilarity, reference.first(k).dissimilarity)
                for k in AT
            }
            rows.append({"metric": metric, "candidates": n, **recall, "seconds": spent})
            if metric == "cosine":
                figures |= {f"{n}.{key}": value for key, value in (recall | {"seconds": spent}).items()}
    ways = {
        "all tokens": exact,
        "words": late_nearest(words(queries), words(corpus), 1, n_candidates=None),
        "pooled": nearest(queries.pooled(), corpus.pooled(), 1),
    }
    compared = [{"score": way, "accuracy": accuracy(found, right)} for way, found in ways.items()]
    return figures, {"first stage": rows, "accuracy": compared}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="60 mentions and 500 names, results left alone")
    if parser.parse_args().quick:
        print(json.dumps(measure(60, 500), indent=2))
    else:
        record("late_interaction", *measure(300, 5000))


if __name__ == "__main__":
    main()
