"""Write a linker to a folder, and read it: the index of its knowledge base, its models, and ``arbo-linker.json``."""

from pathlib import Path
from typing import Any

from arbo.data import KnowledgeBase
from arbo.encoders.index import build_index
from arbo.encoders.ngrams import NgramEncoder
from arbo.errors import UsageError
from arbo.files import Format, PathLike, check_manifest, write_json
from arbo.linker import Linker
from arbo.linking.config import LinkerConfig
from arbo.settings import read_json

_MANIFEST = "arbo-linker.json"
_FORMAT = Format("arbo-linker", 1, {"config": dict, "parts": list}, "a linker", "save the pipeline again")


def save_linker(linker: Linker, path: PathLike) -> None:
    """Write a linker to a folder; only files of an earlier linker are replaced.

    Raise UsageError if the folder cannot be written, or the encoder or the reranker is the user's own.
    """
    folder = Path(path)
    own: dict[str, Any] = {"encoder": linker.encoder, "reranker": linker.reranker, "edges": linker.edges}
    if isinstance(linker.encoder, NgramEncoder) and linker.encoder.settings == NgramEncoder().settings:
        del own["encoder"]
    savers: dict[str, Any] = {
        name: getattr(part, "save" if name == "edges" else "save_pretrained", None)
        for name, part in own.items()
        if part is not None
    }
    for name, save in savers.items():
        if save is None:
            raise UsageError(f"a pipe cannot save the {name} {type(own[name]).__name__}; set `linker` after loading")
    assert linker.kb is not None
    build_index(linker.kb, folder / "index", encoder=linker.encoder, announce=linker.announce)
    for name, save in savers.items():
        save(folder / name)
    content = {"parts": list(savers), "config": linker.config.as_dict()}
    write_json(_FORMAT.head() | content, folder / _MANIFEST)


def load_linker(path: PathLike) -> Linker:
    """Read a linker that `save_linker` wrote; raise DataError if a file is missing, damaged or of a newer arbo."""
    folder = Path(path)
    content = check_manifest(read_json(folder / _MANIFEST, "the linker"), _FORMAT, folder / _MANIFEST)
    parts = content["parts"]
    config = LinkerConfig.from_dict(content["config"], file=str(folder / _MANIFEST))
    encoder: Any = folder / "encoder" if "encoder" in parts else NgramEncoder()
    reranker = None
    if "reranker" in parts:
        from arbo.encoders.cross import CrossEncoder

        reranker = CrossEncoder.from_pretrained(folder / "reranker")
    edges: Any = folder / "edges" if "edges" in parts else None
    kb = KnowledgeBase.from_index(folder / "index")
    return Linker(kb, encoder, config, reranker=reranker, edges=edges)
