"""The page of a run as one file: HTML with its style, its script and its data, which asks for nothing else.

The policy of the page allows the one script and the one style, by their hashes, and nothing from anywhere. The data
are the blocks that a served page asks for, in elements that browsers do not run; its strings reach the page as text
nodes alone.
"""

import gzip
import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from arbo.explore.payload import Columns, Payload
from arbo.files import PathLike, json_ready, write_whole
from arbo.results.run import Run

_SCRIPTS = "dom charts views views_one views_document views_threshold changes app columns cuts source"
"""The modules that all pages have, each after those that it imports when it is read."""
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z_]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.MULTILINE)


def report(run: Run, path: PathLike, *, name: str = "run", texts: bool = True, before: Run | None = None) -> int:
    """Write the page of a run, and return its size in bytes; see `arbo explore --out`.

    Without ``texts``, the page holds no text of a document; mentions keep their own texts, but not their long forms.
    It shows what changed since the run ``before``. Equal runs give equal files. Raise UsageError if the file cannot be
    written.
    """
    blocks = _blocks(Payload(run, name, texts=texts, before=before))
    html, _ = shell(["file"], ["page"], title=name, data="\n".join(_block(*block) for block in blocks))
    content = html.encode("utf-8")
    write_whole(path, lambda partial: partial.write_bytes(content))
    return len(content)


def shell(
    scripts: Sequence[str], styles: Sequence[str], *, title: str, data: str = "", connect: str = "'none'"
) -> tuple[str, str]:
    """Return the HTML of a page of `_SCRIPTS` and some more, and its policy; ``connect`` is what it may ask."""
    modules = (_static(f"{name}.js") for name in [*_SCRIPTS.split(), *scripts])
    script = "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)
    style = "".join(_static(f"{name}.css") for name in styles)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    html = _static("page.html").format(
        policy=escape(policy), title=escape(title), style=style, script=script, data=data
    )
    return html, policy


def _blocks(payload: Payload) -> Iterator[tuple[str, bytes]]:
    """Yield the blocks of a page."""
    if payload.has_texts:
        texts = Columns()
        texts.strings("text", payload.run.document_table["text"])
        yield "texts", texts.packed()
    yield "tables", payload.tables
    if payload.overview["no_cuts"] is None:
        yield "cuts", payload.cuts
    if payload.overview["changes"]:
        yield "changes", json.dumps(json_ready(payload.changes)).encode()
    yield "overview", json.dumps(payload.overview).encode()


def _block(name: str, content: bytes) -> str:
    packed = gzip.compress(content, 5, mtime=0)  # 9 takes seven times as long for 2 % less
    return f'<script type="application/octet-stream" id="{name}">{b64encode(packed).decode()}</script>'


def _static(name: str) -> str:
    return files("arbo.explore").joinpath("static", name).read_text("utf-8")


def _hash(content: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode()
