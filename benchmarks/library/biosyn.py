"""The protocol of BioSyn (Sung et al. 2020), in which the diseases of NCBI disease and BC5CDR are compared.

The rules are those of the authors' preparation and evaluation (github.com/dmis-lab/BioSyn):

- *Text*: abbreviations are written out, then lower case; runs of punctuation and white space become one blank.
- *Composite mentions*, which have several ids, are split if there are as many parts as ids: BC5CDR gives the parts, for
  NCBI disease a rule finds them. If ids of OMIM and MeSH are mixed, those of OMIM do not count.
- *Dictionary*: the names of MEDIC, each once, with the ids and alternative ids of all entities that have it. To it come
  the mentions of the training part, for the test also of the development part, with the ids annotated there; those of a
  split mention as one name.
- *Mentions*: all but those with an id that MEDIC lacks; repeated ones count each time.
- *Right* is a mention if for each part the ids of the nearest name and the annotated ids, of all parts, have one in
  common. So a name that several entities share is right for each of them.

Three rules differ. The authors write out abbreviations with Ab3P, and here it is Schwartz and Hearst's (2003) method.
They rewrite 37 words in the mentions of NCBI disease, as "tumour" to "tumor", and here no spelling is changed. Their
evaluation splits the ids of a name at `|` only, so that a training name with the ids `D1+D2` is right for nothing; here
it is right for either.
"""

import re
import string
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import arbo
from arbo.data.documents import Document
from arbo.text.abbreviations import expander

Ids = frozenset[str]
_SEPARATORS = re.compile(rf"[\s{re.escape(string.punctuation)}]+")
_WORD = r"[a-zA-Z-]+"
_OF = re.compile(rf"({_WORD}) of (?:both )?(?:the )?((?:{_WORD} )+)(?:and|or) (?:the )?((?:{_WORD} ?)+)")
_LISTED = rf"((?:{_WORD},? )+)(?:and|or|and/or) "
_LISTS = re.compile(rf"{_LISTED}({_WORD} and {_WORD}) (.*)"), re.compile(rf"{_LISTED}((?:the )?{_WORD}) (.*)")


@dataclass(frozen=True, slots=True)
class Query:
    """A mention: its document, its names (several if it is composite), and its annotated ids."""

    document: Document
    mention: arbo.Mention
    parts: tuple[str, ...]
    ids: Ids


def plain(name: str) -> str:
    """Return a name in lower case without punctuation.

    >>> plain("Wilson's disease, (type-2)")
    'wilson s disease type 2'
    """
    return _SEPARATORS.sub(" ", name.lower()).strip()


def split(mention: str, n: int) -> list[str]:
    """Split a mention with several ids by the rule of the protocol; whole if it does not have ``n`` parts.

    >>> split("breast and/or ovarian cancer", 2), split("cancer of the breast and ovary", 2)
    (['breast cancer', 'ovarian cancer'], ['cancer of breast', 'cancer of ovary'])
    >>> split("colon adenomas/carcinomas", 2), split("breast and ovarian cancer", 3)
    (['colon adenomas', 'colon carcinomas'], ['breast and ovarian cancer'])
    """
    parts = [part for part in _parts(mention.strip()) if part]
    return parts if len(parts) == n else [mention]


def _parts(mention: str) -> list[str]:
    if found := _OF.match(mention):
        return [f"{found[1]} of {found[2].strip()}", f"{found[1]} of {found[3].strip()}"]
    for pattern in _LISTS:
        if found := pattern.match(mention):
            heads = [*filter(None, found[1].strip().split(",")), found[2]]
            return [f"{head.strip()} {found[3]}" for head in heads]
    if "/" in mention and "and/or" not in mention:
        before, _, after = mention.rpartition("/")
        shared = before.rpartition(" ")[0].strip()
        return [before.strip(), f"{shared} {after.strip()}".strip()]
    return mention.split()


def written_parts(path: Path, type_: str) -> dict[tuple[str, int, int], list[str]]:
    """Read the parts of composite mentions from a PubTator file, by document, begin and end."""
    found = {}
    for line in path.read_text("utf-8").splitlines():
        columns = line.split("\t")
        if len(columns) == 7 and columns[4] == type_ and columns[5].count("|") == columns[6].count("|"):
            found[columns[0], int(columns[1]), int(columns[2])] = columns[6].split("|")
    return found


def queries(
    documents: Iterable[Document], known: Ids, parts: Mapping[tuple[str, int, int], list[str]] | None = None
) -> list[Query]:
    """Make the queries of documents; ``known``: the ids of MEDIC, ``parts``: see `written_parts`."""
    found = []
    for document in documents:
        write_out = expander(document.text)
        for mention in document.mentions:
            annotated = [id_.strip() for id_ in mention.gold or ()]
            if not all(id_.startswith("OMIM") for id_ in annotated):
                annotated = [id_ for id_ in annotated if not id_.startswith("OMIM")]
            ids = [id_.removeprefix("OMIM:").removeprefix("MESH:") for id_ in annotated]
            if not ids or not known.issuperset(ids):
                continue
            begin, end = mention.spans[0][0], mention.spans[-1][1]
            given = (parts or {}).get((document.id, begin, end))
            name = write_out(mention.text)
            names = list(map(write_out, given)) if given else split(name, len(ids)) if len(ids) > 1 else [name]
            found.append(Query(document, mention, tuple(map(plain, names)), frozenset(ids)))
    return found


def ids_of(kb: arbo.KnowledgeBase) -> Ids:
    """Return all ids and alternative ids, without the names of their sources."""
    return frozenset(id_ for entity in kb for id_ in _ids(entity))


def dictionary(kb: arbo.KnowledgeBase, annotated: Iterable[Query] = ()) -> dict[str, Ids]:
    """Map each name, see `plain`, to all ids that it may mean."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entity in kb:
        for name in (entity.name, *entity.aliases):
            found[plain(name)].update(_ids(entity))
    for query in annotated:
        found[" ".join(query.parts)] |= query.ids
    return {name: frozenset(ids) for name, ids in found.items() if name}


def _ids(entity: arbo.Entity) -> list[str]:
    return [id_ for id_ in (entity.id, *entity.alternative_ids) if ":" not in id_]


def right(query: Query, answers: Sequence[Ids]) -> bool:
    """Say whether the answers to all parts of a query are right."""
    return all(not answer.isdisjoint(query.ids) for answer in answers)
