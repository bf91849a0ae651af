"""Coreference files: CoNLL and JSON lines against the reference scorer, round trips, and hostile files."""

import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linear_sum_assignment

from arbo.errors import DataError
from arbo.formats.corefud import Headed
from arbo.results.coreference_files import matched_by_heads, paired_counts, read_clusters
from eval import coreference_counts

REPEATED = "repeated mentions left out; the first of each counts"
BEGIN, END = "#begin document (a); part 000", "#end document"
NAME = "a/000"


def words(*columns):
    return [f"a\t0\t{i}\tw\t{column}" for i, column in enumerate(columns)]


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Write lines to a file, and read their clusters."""
    path = tmp_path_factory.mktemp("clusters") / "file"

    def read(lines, format_="conll"):
        path.write_bytes("\n".join(lines).encode())
        return read_clusters(path, format_)

    return read


def reference_reading(columns):
    """The clusters of brackets parted by bars, by the searches of the reference scorer, in its order."""
    index, half, entities = {}, {}, {}
    for word, column in enumerate(columns):
        for pattern in (r"\((\d+)\)", r"\((\d+)", r"(\d+)\)"):
            for chain in re.findall(pattern, column):
                mentions = entities.setdefault(index.setdefault(chain, len(index)), [])
                if pattern == r"\((\d+)\)":
                    mentions.append((word, word))
                elif pattern == r"\((\d+)":
                    half.setdefault(chain, []).append(word)
                else:
                    mentions.append((half[chain].pop(), word))
            column = re.sub(pattern, "", column)
    return [entities[i] for i in sorted(entities)]


@st.composite
def columns_of_brackets(draw):
    """Brackets in any order: spans of one chain may cross, touch and repeat."""
    n = draw(st.integers(1, 6))
    columns = [[] for _ in range(n)]
    for _ in range(draw(st.integers(0, 7))):
        first, last = sorted(draw(st.tuples(*[st.integers(0, n - 1)] * 2)))
        chain = draw(st.integers(1, 3))
        if first == last:
            columns[first].append(f"({chain})")
        else:
            columns[first].append(f"({chain}")
            columns[last].append(f"{chain})")
    return ["|".join(draw(st.permutations(column))) or "-" for column in columns]


@given(columns=columns_of_brackets())
def test_brackets_are_read_as_by_the_reference_scorer(columns, read):
    found, clusters = read([BEGIN, *words(*columns), END]), reference_reading(columns)
    seen = set()
    first = [[m for m in dict.fromkeys(c) if not (m in seen or seen.add(m))] for c in clusters]
    assert found[0][NAME] == [cluster for cluster in first if cluster]
    assert sum(found[1].values()) == sum(map(len, clusters)) - len(seen)


def test_documents_and_parts(read):
    found = read([
            "# global", "", BEGIN, *words("-", "(1)"), "", *words("(1)"), END, "#begin document (a); part 001 ", END,
            "#begin document b", "  ", *words("(1)"), END, "", "# done",
        ])  # fmt: skip
    assert (found[0], found[1]) == ({NAME: [[(1, 1), (2, 2)]], "a/001": [], "b": [[(0, 0)]]}, {})


def test_layout_changes_nothing(read):
    for change in (
        lambda text: text.replace("\t", "   "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("(1\n", "(1\t \n"),
        lambda text: text.replace("a\t0\t0\tw", "only"),
        lambda text: text.replace("w", "(3\u2028\u00a07)").replace("\t-", "\t_"),
        lambda text: text.removesuffix("\n"),
        lambda text: text.replace("#begin", "# begin").replace("#end", "# end"),
    ):
        text = "\n".join((BEGIN, *words("(1", "-", "1)|(2)", "(2)"), END, ""))
        expected = {NAME: [[(0, 2)], [(2, 2), (3, 3)]]}
        assert change(text) != text
        assert (read(text.split("\n"))[0], read(change(text).split("\n"))[0]) == (expected, expected)


def test_brackets(read):
    """The reference scorer would search a whole line of blanks and find a mention of chain 7 in the word."""
    for lines in (words("-", "_", "*"), ["a 0 0 (7) NN (TOP* -"]):
        assert read([BEGIN, *lines, END])[0] == {NAME: []}
    for lines in (words("(one)|(2-b)"), ["a 0 0 (7) NN (TOP* (1)"]):
        assert read([BEGIN, *lines, END])[0] == {NAME: [[(0, 0)]]}


CONLL = [
    ([BEGIN, *words("-", "1)"), END], 3, "chain 1 ends a mention here that has not begun"),
    ([BEGIN, *words("(2)", "(2)(1|(3", "3)"), END], 3, "chain 1 begins a mention here that does not end"),
    ([BEGIN, "a 0 0   w   (3)(1  ", END], 2, "chain 1 begins"),
    ([BEGIN, *words("word"), END], 2, "expected brackets such as `(1`, `1)` or `(1)|(2`, not 'word'"),
    ([BEGIN, *words("(1)||(2)"), END], 2, "not '(1)||(2)'"),
    ([BEGIN, *words("(1)", "(1", "1)(2)|(2", "(1"), END], 4, "chain 2 begins"),
    ([BEGIN, *words("(1))"), END], 2, "expected brackets"),
    (["", *words("-"), BEGIN, END], 2, "a word outside a document; a document begins with `#begin"),
    ([BEGIN, END, *words("-")], 3, "a word outside"),
    ([BEGIN, *words("-"), "#begin document b", END], 1, "`#end document` is missing"),
    ([BEGIN, END, BEGIN, *words("-")], 3, "`#end document` is missing"),
    ([BEGIN, END, BEGIN, END], 3, "'a/000': an earlier document has the same name"),
    (["# nothing"], None, "the file has no documents"),
    (['{"mentions": ["a"]}'], 1, "is it `jsonl`"),
]
"""Lines, the place and the words of the error."""
JSONL = [
    ('{"mentions": ["a"]', "not JSON: Expecting ',' delimiter at character 19; write each object on one line"),
    ("[]", "a cluster must be a JSON object, not this list"),
    ('{"mentions": [], "mention": 1, "document": "d"}', "unknown key 'mention'; known: document, mentions"),
    ('{"document": "d"}', "a cluster needs the key 'mentions'"),
    ('{"mentions": "ab"}', "'mentions' of a cluster must be a list, not a string"),
    ('{"mentions": [{}], "document": 3}', "'document' of a cluster must be a string (in quotes), not a number"),
    *((f'{{"mentions": [{one}]}}', f"a string, an integer or a list of these, not {one}") for one in ("true", "1.5")),
    ('{"mentions": [null]}', "a string, an integer or a list of these, not null"),
    ('{"mentions": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ('{"mentions": [' + "9" * 5_000 + "]}", "thousands of digits"),
]
"""A line, and the words of the error."""

COREFUD = [
    (["(a--1", "b)", "a)"], 4, "'d': entity b continues a mention here that has not begun"),
    (["(a[2/2]--1)"], 3, "entity a continues a mention here"),
    (["", "(a[1/2]--1)", ""], 4, "'d': entity a begins a mention here that does not end"),
    (["(a--1", "a)", "(b--1"], 5, "entity b begins"),
    (["(-x-1)"], 3, "the bracket '-x-1' has no eid"),
    (["a"], 3, "expected brackets such as `(e1-person-1`, not 'a'"),
    (["(" * 100_000], 3, "expected brackets"),
]
"""The brackets of words, the place and the words of the error."""


def conllu(*brackets):
    rows = [f"{i}\tw\t_\t_\t_\t_\t0\t_\t_\t{f'Entity={one}' if one else '_'}" for i, one in enumerate(brackets, 1)]
    return ["# newdoc id = d", "# global.Entity = eid-etype-head-other", *rows, ""]


@pytest.mark.parametrize(
    ("lines", "format_", "line", "problem"),
    [
        *((lines, "conll", line, problem) for lines, line, problem in CONLL),
        *((['{"mentions": []}', line], "jsonl", 2, problem) for line, problem in JSONL),
        *((conllu(*brackets), "corefud", line, problem) for brackets, line, problem in COREFUD),
    ],
)
def test_malformed_files_are_told_by_place(lines, format_, line, problem, read):
    with pytest.raises(DataError) as caught:
        read(lines, format_)
    assert problem in str(caught.value)
    assert caught.value.line == line
    assert len(caught.value.problem) < 200


@given(text=st.text() | st.text("#begin documt()12|-\t\n\r_*", max_size=80).map(lambda text: f"{BEGIN}\n{text}"))
def test_any_lines_are_read_or_refused(text, read):
    lines = text.split("\n")
    for format_ in ("conll", "jsonl"):
        try:
            read(lines, format_)
        except DataError as error:
            place = error.line or 1
        else:
            continue
        assert 1 <= place <= len(lines)


def test_clusters(read):
    found = read(
        [
            '{"document": "d", "mentions": ["a", 1, "1", [0, 4], [[0, 1], [4, 5]]]}',
            "",
            '{"mentions": ["a"]}\r',
            '{"mentions": ["b"], "document": null}',
            '{"document": "d", "mentions": ["b"]}',
            '{"document": "e", "mentions": []}',
        ],
        "jsonl",
    )
    assert found[0] == {"d": [["a", 1, "1", (0, 4), ((0, 1), (4, 5))], ["b"]], "": [["a"], ["b"]], "e": []}
    assert found[1] == {}
    lines = ['{"mentions": [[1, 2], "x", [1, 2]]}', '{"mentions": ["y", "x"]}', '{"mentions": ["x"]}']
    assert read(lines, "jsonl") == ({"": [[(1, 2), "x"], ["y"]]}, {REPEATED: 3})


def test_the_documents_of_the_key_are_scored():
    key = {"both": [["a", "b"], ["c"]], "missing": [["a", "b"]], "none": []}
    response = {"extra": [["x", "y"]], "none": [["z"]], "both": [["a", "b", "c", "d"]]}
    counts = paired_counts(key, response)
    assert list(counts.documents) == ["both", "missing", "none"]
    assert (counts.missing, counts.ignored) == (("missing",), ("extra",))
    assert counts.documents["both"] == {**coreference_counts(key["both"], response["both"]), "mentions": [3, 3, 3, 4]}
    assert counts.documents["missing"]["lea"] == coreference_counts(key["missing"], [])["lea"]
    assert (counts.total["mentions"], counts.total["muc"]) == ([3, 5, 3, 5], [1, 2, 1, 3])
    assert counts.total["b3"][1::2] == [5, 5]


def test_a_repeated_mention_that_the_key_lacks_counts_once(read):
    """The reference scorer keeps it twice: it would divide the precision of B-cubed by 4, not 3."""
    key = read([BEGIN, *words("(1)", "(1)", "-"), END])[0]
    response = read([BEGIN, *words("(1)", "(1)", "(1)|(2)"), END])
    assert response[1] == {REPEATED: 1}
    counts = paired_counts(key, response[0]).total
    assert (counts.pop("mentions"), counts) == ([2, 2, 2, 3], coreference_counts([["a", "b"]], [["a", "b", "c"]]))


@pytest.mark.parametrize(
    ("brackets", "clusters"),
    [
        (["(a-x-2", "(b-y-1-)", "a)"], [[((0, 1, 2), 1)], [((1,), 1)]]),
        (["(a--1(a--2", "a)", "a)"], [[((0, 1, 2), 0), ((0, 1), 1)]]),
        (["(a[1/2]--2)", "(a--1)", "(a[2/2]--2", "a[2/2])"], [[((0, 2, 3), 2), ((1,), 1)]]),
        (["(a--9)(b", "(a-x-z)b)", ""], [[((0,), 0), ((1,), 1)], [((0, 1), 0)]]),
    ],
)
def test_entities_of_corefud(brackets, clusters, read):
    lines = conllu(*brackets)
    assert read(lines, "corefud")[0] == {"d": clusters}
    assert read([line.replace("eid-etype-head", "GRP-entity-head") for line in lines], "corefud")[0] == {"d": clusters}


@st.composite
def headed_clusters(draw):
    """Mentions of few words in clusters; no two are equal."""
    words = st.sets(st.integers(0, 4), min_size=1).map(lambda some: tuple(sorted(some)))
    mentions = st.sets(words.flatmap(lambda own: st.builds(Headed, st.just(own), st.sampled_from(own))), max_size=7)
    clusters = {}
    for mention in sorted(draw(mentions)):
        clusters.setdefault(draw(st.integers(0, 2)), []).append(mention)
    return [*clusters.values()]


@given(headed_clusters(), headed_clusters())
def test_heads_are_matched_as_by_the_corefud_scorer(key, response):
    """That scorer assigns mentions without an equal one by the shares of words, 0 for different heads."""
    of_key, others = ({one for some in side for one in some} for side in (key, response))
    rows, columns = sorted(of_key - others), sorted(others - of_key)
    shares = np.array([
        [(a.head == b.head) * len({*a.words} & {*b.words}) / len(a.words) for b in columns] for a in rows
    ]).reshape(len(rows), len(columns))  # fmt: skip
    best, matched = shares[linear_sum_assignment(-shares)], matched_by_heads(key, response)
    assert [*map(len, matched)] == [*map(len, response)]
    pairs = [(b, a) for some, of in zip(response, matched, strict=True) for b, a in zip(some, of, strict=True)]
    changed = [(b, a) for b, a in pairs if a != b]
    assert (len({a for _, a in pairs}), len(changed)) == (len(pairs), (best > 0).sum())
    assert all(b in columns and a in rows and a.head == b.head for b, a in changed)
    assert sum(shares[rows.index(a), columns.index(b)] for b, a in changed) == pytest.approx(best.sum())
