"""What an epoch of training costs beside its steps: everything embedded anew, and the trees of gold clusters.

**Encoding**: `Tower.embed`, which puts texts of like length together, against the same texts in the order of the
corpus, as many to a batch as ours hold on average: `padded`, each to the 128 tokens that the model may read, and
`longest`, each to the longest of its batch. all-MiniLM-L6-v2 with `EncoderConfig.in_context()` reads the mentions of
the NCBI disease training part and the entities of MEDIC with all their names, 240 distinct texts of each. The three
take turns on one core, three times; seconds leave out what other programs took. `texts_a_second` is of the median,
`times_padded` and `times_longest` are medians of the ratios of one turn. `epoch` is both, by as many as there are:
5,134 mentions and 11,915 entities. Windows into whole documents are nearly all full, so that of `mentions` alone
nothing can be gained. The script stops where vectors differ by more than rounding.

**tree**: `clustering.dense.spanning_tree` of one gold cluster, 1,256 mentions of 768 dimensions (best of 15, on all
cores), and 50,000 of 384 (on one, as above 4,096 mentions), in a process of its own. `cpu_seconds` are summed over the
cores and leave out what other programs took. `extra_gb` is the peak of the resident memory above what was there before
the call, the vectors among it; all products at once would be 10 GB in float32.

`--quick` takes 24 texts of each and a cluster of 5,000, prints the figures and leaves the results alone.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from library.command import measure_or_try
from library.corpora import Data
from library.results import Figures, collected
from library.timing import in_process, resident

import arbo
from arbo.data import mention_inputs
from arbo.encoders.dual import Texts
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from clustering.arrays import Floats
from clustering.dense import spanning_tree

CONFIG = arbo.EncoderConfig.in_context()
TURNS = 3

Measured = Iterator[tuple[str, float]]


def encoding(n_texts: int) -> Measured:
    """Figures of our batches against those of others."""
    torch.set_num_threads(1)
    encoder = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", CONFIG)
    data = Data.of("NCBI disease")
    inputs = mention_inputs(data.train, expand_abbreviations=True)
    seconds: dict[str, list[float]] = {}  # of an epoch, by turn
    for kind, texts in (("mentions", encoder.mention_texts(inputs)), ("entities", encoder.entity_texts(data.kb))):
        per_text = turns(texts, n_texts)
        yield f"{kind}.texts", len(texts.keys)
        yield from compared(kind, per_text, 1)
        for way, values in per_text.items():
            so_far = seconds.get(way, [0.0] * TURNS)
            seconds[way] = [a + len(texts.keys) * b for a, b in zip(so_far, values, strict=True)]
    yield from compared("epoch", seconds, len(inputs) + len(data.kb))


def compared(kind: str, seconds: dict[str, list[float]], n_texts: int) -> Measured:
    """Figures of the seconds that each way took in each turn for so many texts."""
    yield f"{kind}.texts_a_second", n_texts / statistics.median(seconds["ours"])
    for way in ("padded", "longest"):
        ratios = [other / ours for other, ours in zip(seconds[way], seconds["ours"], strict=True)]
        yield f"{kind}.times_{way}", statistics.median(ratios)


def turns(texts: Texts, n_texts: int) -> dict[str, list[float]]:
    """Embed a sample in each way, in turns; seconds a text."""
    chosen = np.sort(np.random.default_rng(0).choice(len(texts.keys), n_texts, replace=False))
    rows, tower = texts.spell(chosen), texts.tower
    size = math.ceil(n_texts / n_batches(tower, rows))
    ways: dict[str, Callable[[], Floats]] = {
        "ours": lambda: tower.embed(rows, CONFIG.pooling),
        "padded": lambda: in_order(tower, rows, size, CONFIG.max_length),
        "longest": lambda: in_order(tower, rows, size, 1),
    }
    vectors = {way: embed() for way, embed in ways.items()}  # warms up
    for way, others in vectors.items():
        assert np.allclose(vectors["ours"], others, atol=1e-4), f"{way} gives other vectors"
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(TURNS):
        for way, embed in ways.items():
            begun = time.process_time()
            embed()
            seconds[way].append((time.process_time() - begun) / n_texts)
    return seconds


def n_batches(tower: Tower, rows: list[TokenRow]) -> int:
    """Count our batches."""
    seen: list[object] = []
    hook = tower.model.register_forward_pre_hook(lambda *given: seen.append(None))
    tower.embed(rows, CONFIG.pooling)
    hook.remove()
    return len(seen)


def in_order(tower: Tower, rows: list[TokenRow], size: int, at_least: int) -> Floats:
    """Embed rows in their order, padded to the longest of a batch and to some length at least."""
    vectors = []
    for begin in range(0, len(rows), size):
        batch = rows[begin : begin + size]
        longest = max(at_least, *(len(row.ids) for row in batch))
        ids, mask = (np.zeros((len(batch), longest), np.int64) for _ in range(2))
        for place, row in enumerate(batch):
            ids[place, : len(row.ids)] = row.ids
            mask[place, : len(row.ids)] = 1
        with torch.inference_mode():
            hidden = tower.model(torch.from_numpy(ids), torch.from_numpy(mask)).last_hidden_state
            vectors.append(hidden[:, 0].numpy())
    return np.concatenate(vectors)


def small_tree() -> Measured:
    """Figures of the cluster whose products are made at once."""
    vectors, root = cluster(1256, 768)
    taken = []
    for _ in range(15):
        begun, begun_cpu = time.perf_counter(), time.process_time()
        spanning_tree(vectors, root)
        taken.append((time.perf_counter() - begun, time.process_time() - begun_cpu))
    for key, values in zip(("seconds", "cpu_seconds"), zip(*taken, strict=True), strict=True):
        yield f"tree.1256x768.{key}", min(values)


def large_tree(n: int, dim: int) -> Figures:
    """Figures of a cluster that is too large for it; for a process of its own."""
    vectors, root = cluster(n, dim)
    spanning_tree(vectors[:5000, :1], root[:5000])  # compiles the kernel
    before = resident("VmRSS")
    begun, begun_cpu = time.perf_counter(), time.process_time()
    spanning_tree(vectors, root)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - begun_cpu
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "extra_gb": (resident("VmHWM") - before) / 1e9}


def cluster(n: int, dim: int) -> tuple[Floats, Floats]:
    """Draw mentions around a centre, as far from it as from the entity."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n, dim), np.float32)
    vectors += rng.standard_normal(dim, np.float32)
    return vectors, -(vectors @ rng.standard_normal(dim, np.float32))


def trees(n_large: int) -> Measured:
    """Figures of spanning trees."""
    yield from small_tree()
    for key, value in in_process(large_tree, n_large, 384).items():
        yield f"tree.{n_large}x384.{key}", value


def measure(quick: bool) -> Figures:
    """Run everything."""
    return collected(trees(5000 if quick else 50_000)) | collected(encoding(24 if quick else 240))


if __name__ == "__main__":
    measure_or_try("training_speed", __doc__, "few texts, a smaller cluster", measure)
