"""The ids of an annotation are the same in every format: an id that the knowledge base has is found again."""

from pathlib import Path

import numpy as np

import arbo
from arbo.data.gold import Gold
from arbo.formats import read_documents, writer
from campaign.runner import Campaign

_PIECES = [*map(str, range(1, 9)), "A", "GO:7", "x y", "É1"]
_WHOLE = "c|SUB|A|5|G", "p|FS|R|97||16", "tmVar:g|DEL|5_6|AB;HGVS:c.5A>G", "C++", "CD4+", "|SUB|A|7|C"


def _roundtrip(seed: int, folder: Path) -> None:
    """Write and read ids, most with separators, in which alone no two differ, and two that are unknown."""
    rng = np.random.default_rng(seed)
    pieces = {tuple(rng.choice(_PIECES, rng.integers(1, 5), replace=False).tolist()) for _ in range(8)}
    ids = ["|,;+"[rng.integers(4)].join(one) for one in sorted(pieces)]
    ids += rng.choice(_WHOLE, 2, replace=False).tolist()
    kb = arbo.KnowledgeBase([arbo.Entity(id_, "flu") for id_ in ids])
    golds = [*ids, "none", "9,10"]
    right = [*([row] for row in range(len(ids))), [], []]
    mentions = (arbo.Mention(f"d:T{i}", "d", ((0, 3),), "flu", "X", (gold,)) for i, gold in enumerate(golds, 1))
    document = arbo.Document("d", "flu", tuple(mentions))
    for format_ in ("bioc", "brat", "jsonl", "pubtator"):
        writer(format_)([document], folder / f"out-{format_}", {})
        assert sorted(Gold.of(read_documents(folder / f"out-{format_}", format_), kb).lists) == sorted(right), format_
    rows = (f'd{i},flu,0,3,"{gold}"\n' for i, gold in enumerate(golds))
    (folder / "docs.csv").write_text(f"document_id,text,start,end,entity\n{''.join(rows)}", "utf-8")
    assert Gold.of(read_documents(folder / "docs.csv"), kb).lists == right


_ASKS = "an id that the knowledge base has is found in every format"
CAMPAIGNS = {"roundtrip": Campaign(_roundtrip, _ASKS, 20_000, 20)}
