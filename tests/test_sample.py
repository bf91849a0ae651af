"""The embedded sample is the one that the README, the page of a run and many tests count on.

What they count on, if it is ever written anew: each type of entity; shared names, abbreviations of several meanings, of
known and of missing entities; gold ids that are alternative ones, several, or none; discontinuous, nested and
overlapping mentions; letters beyond ASCII and beyond the basic plane; entities of one mention, of few and of many.
"""

from pathlib import Path

import arbo
from arbo.files import sha256_of

FOLDER = Path(arbo.__file__).parent / "sample"


def test_it_is_as_it_was_written() -> None:
    assert {file.stem: sha256_of(file)[:16] for file in FOLDER.glob("*.jsonl")} == {
        "documents": "f61f7d8366d687ba",
        "entities": "fced303204c4fa04",
    }
    documents, kb = arbo.load_sample()
    assert (len(documents), len(documents.mentions), len(kb)) == (90, 584, 120)


def test_only_missing_entities_have_ids_that_say_so() -> None:
    documents, kb = arbo.load_sample()
    gold = {id_ for mention in documents.mentions for id_ in mention.gold or ()}
    assert {id_ for id_ in gold if id_ not in kb} == {id_ for id_ in gold if id_.startswith("NEW:")}
