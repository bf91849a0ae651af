"""What a model learnt from: hashes of the texts of documents, which the model keeps, and with which linking warns."""

from base64 import b64decode, b64encode
from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc

from arbo.data.corpus import Corpus
from arbo.data.fingerprint import Hashes, hashes_of
from arbo.errors import DataError

_BYTES = 6
"""Of each hash, so that of a million documents and a million others, one pair is equal with a probability of 0.4 %."""


def learnt_from(documents: Corpus, before: str = "") -> str:
    """Return the hashes of documents together with those that ``before`` holds, ascending, as base64.

    A hash is that of the text without white space; empty texts have none.
    """
    every = np.union1d(_unpacked(before), _hashes(documents))
    every = every[every > 0].astype(">u8")
    return b64encode(every.view(np.uint8).reshape(-1, 8)[:, -_BYTES:].tobytes()).decode()


def warnings_of(documents: Corpus, models: Mapping[str, object]) -> list[str]:
    """Say how many documents each model was trained on; ``models`` have names for sentences, and perhaps `learnt`."""
    warnings = []
    for name, model in models.items():
        if learnt := getattr(model, "learnt", ""):
            known = np.isin(_hashes(documents), _unpacked(learnt))
            if n := int(known.sum()):
                which = f"{n:,} of {len(known):,} documents are among those that {name} was trained on"
                warnings.append(f"{which}, or of the same corpus; scores on them do not hold for other documents")
    return warnings


def _hashes(documents: Corpus) -> Hashes:
    """Return the hashes of the documents; 0 for an empty text."""
    bare = [pc.replace_substring_regex(text, r"\s+", "") for text in documents.tables.documents["text"].chunks]
    bits = np.uint64(8 * (8 - _BYTES))
    hashes = (np.where(pc.equal(one, ""), 0, hashes_of(one) >> bits) for one in bare)
    return np.concatenate([np.empty(0, np.uint64), *hashes])


def _unpacked(learnt: str) -> Hashes:
    try:
        rows = np.frombuffer(b64decode(learnt, validate=True), np.uint8).reshape(-1, _BYTES)
    except (TypeError, ValueError):
        raise DataError("a model has damaged hashes of the documents that it learnt from; train it again") from None
    return np.pad(rows, ((0, 0), (8 - _BYTES, 0))).view(">u8").ravel().astype(np.uint64)
