"""A knowledge base is written to a file, and read again."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings, strategies as st

import arbo
from arbo.kb.saving import save

_CELLS = st.text("ab\"'\t\n\r |=", max_size=6)
_NAMES = _CELLS.filter(str.strip)


@given(
    kb=st.builds(arbo.Entity, _NAMES, _NAMES, st.lists(_CELLS, max_size=3).map(tuple), st.none() | _CELLS).map(
        lambda entity: arbo.KnowledgeBase([entity])
    )
)
@settings(max_examples=200, deadline=None)
def test_tsv_is_read_as_it_was_or_its_losses_are_counted(kb: arbo.KnowledgeBase) -> None:
    with TemporaryDirectory() as folder:
        try:
            lost = save(kb, Path(folder, "kb.tsv"))
        except arbo.DataError:
            assert kb.entities[0].id != kb.entities[0].id.strip()
            return
        assert (list(arbo.read_knowledge_base(Path(folder, "kb.tsv"), "tsv")) == list(kb)) == (not lost), lost
