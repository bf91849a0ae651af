"""Signs, case, accents and order of words: equal spelling comes first, and what a sign keeps apart stays apart."""

import numpy as np
import pytest
from builders import linker, passage
from hypothesis import given, strategies as st

import arbo
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import pair_dissimilarity
from arbo.spans.finding import DictionaryFinder, find_mentions
from arbo.text.names import normalize_name, signs_of

EQUALLY_NEAR = [
    ("mm", "mM"),
    ("gap", "GAP"),
    ("ion per hour per hour", "ion per hour"),
    ("gram per litre", "litre per gram"),
    ("wall-wall junction", "wall junction"),
    ("resume", "résumé"),
    ("Straße 9", "Strasse 9"),
]
SIGNED = [
    ("CD8+ T cell", "CD8- T cell", "CD8 T cell"),
    ("CD8+CD3- lymphocyte", "CD8-CD3+ lymphocyte", "CD8+CD3+ lymphocyte"),
    ("E", "E++", "E#"),
    ("(+)-carvone", "(-)-carvone", "carvone"),
    ("XR 900", "XR 900+"),
    ("3'-end", "3-end"),
    ("pH < 7", "pH > 7", "pH 7"),
    ("Na+ channel", "Na channel"),
    ("5% agar", "5 agar"),
]
FLAT = [name for names in SIGNED for name in names]


def entities(*names: str) -> arbo.KnowledgeBase:
    return arbo.KnowledgeBase([arbo.Entity(f"E{i}", name) for i, name in enumerate(names)])


@pytest.mark.parametrize("pair", EQUALLY_NEAR)
@pytest.mark.parametrize("turned", [False, True])
def test_equal_spelling_comes_first(pair: tuple[str, str], turned: bool) -> None:
    names = pair[::-1] if turned else pair
    kb = entities(*names, "something else")
    result = arbo.Linker(kb).link([*pair])
    for link, name in zip(result.links, pair, strict=True):
        assert (link.entity_name, link.margin) == (name, None)
        assert "but spelled like the mention" in str(result.explain(link.mention.id))
    assert result.manifest["warnings"] == []


def test_a_name_that_two_entities_share_stays_a_doubt() -> None:
    result = arbo.Linker(entities("fever", "fever")).link(["fever", "FEVER"])
    assert [(link.entity, link.margin) for link in result.links] == [("E0", 0), ("E0", 0)]


@pytest.mark.parametrize("turned", [False, True])
def test_signs_keep_names_apart(turned: bool) -> None:
    kb = entities(*(FLAT[::-1] if turned else FLAT))
    assert [link.entity_name for link in arbo.Linker(kb).link(FLAT).links] == FLAT
    assert len(arbo.Linker().discover(FLAT).clusters) == len(FLAT)


def dissimilarity(one: str, other: str, names: list[str]) -> float:
    encoder = NgramEncoder().fit([*names, one, other])
    both = encoder.encode_entities(entities(one, other))
    return float(pair_dissimilarity(both, both, np.array([0]), np.array([1]), metric="cosine")[0])


@given(
    words=st.lists(st.text("abcehimnst", min_size=1, max_size=9), min_size=1, max_size=5),  # neither "and" nor "or"
    place=st.integers(0, 4),
    signs=st.lists(st.sampled_from(["", "+", "-", "++", "#", "'"]), min_size=2, max_size=2, unique=True),
)
def test_any_other_sign_is_beyond_the_thresholds(words: list[str], place: int, signs: list[str]) -> None:
    place %= len(words)
    one, other = (" ".join([*words[:place], f"{words[place]}7{sign}", *words[place + 1 :]]) for sign in signs)
    assert dissimilarity(one, other, ["fever", "a b c", *words]) > 0.55
    assert dissimilarity(one, f" {one.upper()}", ["fever"]) < 1e-6


def test_greek_letters_and_their_names_are_one() -> None:
    assert normalize_name("TNF-α") == normalize_name("TNFα") == normalize_name("TNF-alpha") != normalize_name("TNF-β")
    assert normalize_name("λόγος") == "λογοσ"
    assert "mu" not in normalize_name("5 μg")


def test_namesakes_have_the_same_signs() -> None:
    docs = [passage(f"d{i}", name, name) for i, name in enumerate(("XR 900", "XR 900+", "xr 900"))]
    result = linker(entities("XR 900", "XR 900+")).link(docs, [{"mention": "d0-0", "entity": None}])
    assert [link.entity for link in result.links] == [None, "E1", None]


def test_the_finder_reads_signs() -> None:
    kb = entities("CD8+ T cell", "CD8- T cell", "(-)-carvone", "carvone", "XR 900+")
    text = "Both CD8+ T-cells and (CD8- T cells) were given (-)-carvone or carvone by an XR 900+."
    found = find_mentions(DictionaryFinder(), [passage("d", text)], kb)
    assert [(link.mention.text, link.entity_name) for link in arbo.Linker(kb).link(found).links] == [
        ("CD8+ T-cells", "CD8+ T cell"),
        ("CD8- T cells", "CD8- T cell"),
        ("(-)-carvone", "(-)-carvone"),
        ("carvone", "carvone"),
        ("XR 900+", "XR 900+"),
    ]


def test_a_run_grows_with_equally_near_entities() -> None:
    names = [name for pair in EQUALLY_NEAR for name in pair]
    own = arbo.Linker(entities(*names[::-1]))
    documents = [passage(f"d{i}", name, name) for i, name in enumerate(names)]
    grown = own.add(own.link(documents[:5]), documents[5:])
    assert grown.link_table.slice().equals(own.refit(grown).link_table.slice())
    assert [link.entity_name for link in grown.links] == names


def test_a_bracket_of_a_known_name_defines_nothing() -> None:
    kb = entities("L-serine (Ser)", "L-serine")
    result = arbo.Linker(kb).link(["L-serine (Ser)", "L-serine"])
    assert [link.entity_name for link in result.links] == ["L-serine (Ser)", "L-serine"]


@pytest.mark.parametrize(
    "sign",
    ["\u00ad", "\u200b", "\u2060", "\ufeff", "\u200d", "\u200c", "\u200e", "\u034f", "\u115f", "\ufe0f", "\U000e0001"],
)
def test_invisible_characters_vanish(sign: str) -> None:
    kb, name = entities("hypotension", "tension"), f"hypo{sign}tension"
    assert normalize_name(name) == "hypotension"
    documents = [passage("d", f"Severe {name}.", name)]
    (link,) = arbo.Linker(kb).link(documents).links
    assert (link.entity_name, link.mention.text) == ("hypotension", name)
    found = find_mentions(DictionaryFinder(), documents, kb)
    assert [mention.text for mention in found.mentions] == [name]


def test_joiners_of_other_scripts_stay() -> None:
    assert normalize_name("می\u200cخواهم") != normalize_name("میخواهم")
    assert signs_of("می\u200cخواهم") == ""
