"""Rows of values in columns of Arrow."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, strategies as st

from arbo.data.arrow import rows_among

TEXTS = st.lists(st.sampled_from("abcdefg"), max_size=12)


@given(st.lists(st.sampled_from("abcdefg") | st.none(), max_size=12), TEXTS, st.integers(0, 12), st.booleans())
def test_rows_are_the_first_of_each_value(values: list[str | None], known: list[str], cut: int, long: bool) -> None:
    kind = pa.large_string() if long else pa.string()
    columns = (pa.chunked_array([own[:cut], own[cut:]] if own else [], kind) for own in (values, known))
    assert rows_among(*columns).tolist() == [known.index(v) if v in known else -1 for v in values]
