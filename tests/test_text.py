"""Abbreviations, folded names, and spelling: what is equal comes first, and what a sign keeps apart stays apart."""

import numpy as np
import pytest
from builders import linker, passage
from hypothesis import given, settings, strategies as st

import arbo
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import pair_dissimilarity
from arbo.spans.finding import DictionaryFinder, find_mentions
from arbo.text.abbreviations import definitions, expander
from arbo.text.names import normalize_name, signs_of


def found(text: str) -> list[tuple[str, str]]:
    return [(text[slice(*short)], text[slice(*long)]) for short, long in definitions(text)]


_NONE = """|no bracket at all|Wilson disease (see below)|Wilson disease (1912)|Wilson disease (WDX)|
Seen in Wales. Denmark too. Nothing (WD)|(WD)|( )|
Wilson disease (a very long remark about the disease and its discovery)|Wilson disease WD|
for obesity (OR=7.18, 95 CI=2.6), bipolar disorder (OR=13.8) and others (OR=12.619)|
no rejection (n = 4), chronic rejection (n=5) and recurrent nephropathy (n =5)|
reactive gliosis (p<0.05), and proliferation (p<0.01)|oxygen reduction (n 4, of 9), recycling (OR)|
cells of mice (control, left) or Marsh diseased (CMD)"""
"""Texts without a definition."""


def test_a_definition_is_found_with_its_offsets() -> None:
    for text, expected in (
        ("Patients with Wilson disease (WD) were seen.", [("WD", "Wilson disease")]),
        ("Patients with Wilson disease [WD] were seen.", [("WD", "Wilson disease")]),
        ("WD (Wilson disease) is rare.", [("WD", "Wilson disease")]),
        ("Renal reflux (RR) is here.", [("RR", "Renal reflux")]),  # one word a letter comes first
        ("A case of chronic cerebral colitis (CCC).", [("CCC", "chronic cerebral colitis")]),
        ("Type-two tetanus toxin (TTTT) was given.", [("TTTT", "Type-two tetanus toxin")]),
        ("Serum amyloid (SA) rose.", [("SA", "Serum amyloid")]),
        ("The interferon (IFN) rose.", [("IFN", "interferon")]),
        ("a myotonic dystrophy (DM)", [("DM", "myotonic dystrophy")]),  # of Latin words, in their order
        ("the adenomatous polyposis coli (APC) gene", [("APC", "adenomatous polyposis coli")]),
        ("ataxia telangiectasia (A-T) cells", [("A-T", "ataxia telangiectasia")]),
        ("heat shock transcription factor (HSF; a protein)", [("HSF", "heat shock transcription factor")]),
        ("central nervous system (CNS, the brain)", [("CNS", "central nervous system")]),
        ("Duchenne muscular dystrophy (DMD or Duchenne)", [("DMD", "Duchenne muscular dystrophy")]),
        ('retinoblastoma protein ("RB")', [("RB", "retinoblastoma protein")]),
        ("a drug (acetylsalicylic acid [ASA])", [("ASA", "acetylsalicylic acid")]),
        ("poly(ADP-ribose) polymerase (PARP)", [("PARP", "poly(ADP-ribose) polymerase")]),
        ("(with Wilson disease (WD)), [with kelp blight (KB)]", [("WD", "Wilson disease"), ("KB", "kelp blight")]),
        *(  # an unbalanced bracket spoils nothing but itself
            (text.replace("W", "Wilson disease (WD) was seen"), [("WD", "Wilson disease")])
            for text in ("a) first, b) W.", "(open, W.", "[open, W.", "W (not closed", "closed] and W]")
        ),
        ("sea wasting disease (SWD) and kelp blight (KB)", [("SWD", "sea wasting disease"), ("KB", "kelp blight")]),
        *((text.strip("\n"), []) for text in _NONE.split("|")),
    ):
        assert found(text) == expected


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n"])
def test_a_definition_does_not_cross_a_blank_line(blank: str) -> None:
    text = f"microarray hybridisation{blank}Lymph nodes (LNs) draining"
    assert (found(text), expander(text)("LN")) == ([("LNs", "Lymph nodes")], "Lymph nodes")
    for parts in ("Wilson|disease (WD)", "Wilson disease|(WD)", "Wilson disease (|WD)", "WD|(Wilson disease)"):
        assert definitions(parts.replace("|", blank)) == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n  ", "\t", "\u00a0"])
def test_a_definition_may_go_over_a_line_end_and_is_written_without(end: str) -> None:
    text = f"Seen with{end}Wilson{end}disease{end}(WD) here."
    assert found(text) == [("WD", f"Wilson{end}disease")]
    expand = expander(text)
    assert (expand("WD"), expand("WD patients")) == ("Wilson disease", "Wilson disease patients")
    assert expand(f"Wilson{end}disease of WD") == f"Wilson{end}disease of WD"
    assert expander(f"WD (Wilson{end}disease)")("WD") == "Wilson disease"


def test_expansion_follows_the_definition() -> None:
    expand = expander("Wilson disease (WD) is rare. Wing deformity (WD) and dusk petrels (DPs) are not.")
    assert (expand("WD"), expand("WDs")) == ("Wilson disease", "Wilson disease")
    assert (expand("WD patients"), expand("Wilson disease (WD)")) == ("Wilson disease patients", "Wilson disease")
    assert expand("Wilson disease WD") == "Wilson disease WD"
    assert expand("DPs") == expand("DP") == "dusk petrels"
    assert [expand(name) for name in ("wd", "WDR5", "aWD", "", "liver")] == ["wd", "WDR5", "aWD", "", "liver"]


def test_an_abbreviation_holds_in_its_own_document_alone() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "Wilson disease"), arbo.Entity("E2", "kelp blight")])
    documents = [passage("d1", "Wilson disease (WD) is rare.", "WD"), passage("d2", "A case of WD", "WD")]
    first, second = arbo.Linker(kb).link(documents).links
    assert (first.entity, first.expansion) == ("E1", "Wilson disease")
    assert (second.entity, second.expansion) == (None, None)
    switched_off = arbo.LinkerConfig(expand_abbreviations=False)
    assert arbo.Linker(kb, config=switched_off).link(documents).links[0].expansion is None


LONG = 200_000


@pytest.mark.slow
def test_a_long_text_of_brackets_ends() -> None:
    # Quadratic time would be an hour here; the test ends at all, and every offset is inside.
    half = LONG // 2
    texts = ["(" * LONG, "(" * half + ")" * half, "(" * half + "]" * half, "word " * (LONG // 5) + "(AB)"]
    texts += ["a" * LONG + " (AB)", " " * LONG + "(AB)", "word (WD) " * (LONG // 50), "\n" * LONG + "(AB)"]
    texts += ["\n" + " " * LONG + "(AB)", "a\n\n(AB)" * (LONG // 7)]
    for text in texts:
        assert all(0 <= begin < end <= len(text) for (begin, end), _ in definitions(text))


@settings(max_examples=1000)
@given(st.text("aAbB ()[];,.-\n1é\U0001f98a", max_size=60))
def test_offsets_of_any_text_are_sound(text: str) -> None:
    for short, long in definitions(text):
        assert text[slice(*short)].strip() == text[slice(*short)] != ""
        assert text[slice(*long)].strip() != ""
        assert short[1] <= long[0] or long[1] <= short[0]
    expander(text)(text)


_ALIKE = """
Wilson Disease|WILSON disease, Wilson's disease|Wilson disease, Wilson’s disease|Wilson disease, tumours|tumor,
haemorrhage|hemorrhage, oedema|edema, Sjögren|Sjogren, Sjo\u0308gren|Sj\u00f6gren, type-2|type 2, ﬁbroma|fibroma,
neuropathies|neuropathy, boxes|box, abscesses|abscess,   a   b\n c |a b c, straße|STRASSE"""
_APART = "type 1|type 2, Ω fever|α fever, virus|vir, arthritis|arthriti, 病気|天気, as|a"


@pytest.mark.parametrize(("pairs", "alike"), [(_ALIKE, True), (_APART, False)])
def test_names_are_folded_alike_or_kept_apart(pairs: str, alike: bool) -> None:
    """What has no letters stays itself, and what shows nothing is nothing."""
    for one, other in (pair.split("|") for pair in pairs.split(",")):
        assert (normalize_name(one) == normalize_name(other)) is alike, one
    for name in ("?!", "---", "+ +", "___", "", "   ", "\u0301"):
        assert normalize_name(name) == (name if name.strip(" \u0301") else "")


@given(st.text())
def test_any_text_gives_words_without_blanks_around(name: str) -> None:
    folded = normalize_name(name)
    assert folded == " ".join(folded.split())
    if any(character.isalnum() for character in folded):
        assert all(character.isalnum() or not character.isascii() for character in folded.replace(" ", ""))


_NEAR = """mm|mM, gap|GAP, ion per hour per hour|ion per hour, gram per litre|litre per gram,
wall-wall junction|wall junction, resume|résumé, Straße 9|Strasse 9"""
EQUALLY_NEAR = [tuple(pair.strip().split("|")) for pair in _NEAR.split(",")]
_SIGNED = """CD8+ T cell|CD8- T cell|CD8 T cell|CD8+CD3- lymphocyte|CD8-CD3+ lymphocyte|CD8+CD3+ lymphocyte|E|E++|E#|
(+)-carvone|(-)-carvone|carvone|XR 900|XR 900+|3'-end|3-end|pH < 7|pH > 7|pH 7|Na+ channel|Na channel|5% agar|5 agar"""
FLAT = [name.strip() for name in _SIGNED.split("|")]


def entities(*names: str) -> arbo.KnowledgeBase:
    return arbo.KnowledgeBase([arbo.Entity(f"E{i}", name) for i, name in enumerate(names)])


@pytest.mark.parametrize("pair", EQUALLY_NEAR)
@pytest.mark.parametrize("turned", [False, True])
def test_equal_spelling_comes_first(pair: tuple[str, ...], turned: bool) -> None:
    names = pair[::-1] if turned else pair
    result = arbo.Linker(entities(*names, "something else")).link([*pair])
    for link, name in zip(result.links, pair, strict=True):
        assert (link.entity_name, link.margin) == (name, None)
        assert "but spelled like the mention" in str(result.explain(link.mention.id))
    assert result.manifest["warnings"] == []


def test_a_name_that_two_entities_share_stays_a_doubt() -> None:
    result = arbo.Linker(entities("fever", "fever")).link(["fever", "FEVER"])
    assert [(link.entity, link.margin) for link in result.links] == [("E0", 0), ("E0", 0)]
    names = ["L-serine (Ser)", "L-serine"]  # a bracket of a known name defines nothing
    assert [link.entity_name for link in arbo.Linker(entities(*names)).link(names).links] == names


@pytest.mark.parametrize("turned", [False, True])
def test_signs_keep_names_apart(turned: bool) -> None:
    kb = entities(*(FLAT[::-1] if turned else FLAT))
    assert [link.entity_name for link in arbo.Linker(kb).link(FLAT).links] == FLAT
    assert len(arbo.Linker().discover(FLAT).clusters) == len(FLAT)


def dissimilarity(one: str, other: str, names: list[str]) -> float:
    both = NgramEncoder().fit([*names, one, other]).encode_entities(entities(one, other))
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


def test_greek_letters_and_their_names_are_one_and_joiners_of_other_scripts_stay() -> None:
    assert normalize_name("TNF-α") == normalize_name("TNFα") == normalize_name("TNF-alpha") != normalize_name("TNF-β")
    assert normalize_name("λόγος") == "λογοσ"
    assert "mu" not in normalize_name("5 μg")
    assert normalize_name("می\u200cخواهم") != normalize_name("میخواهم")
    assert signs_of("می\u200cخواهم") == ""


def test_namesakes_have_the_same_signs() -> None:
    docs = [passage(f"d{i}", name, name) for i, name in enumerate(("XR 900", "XR 900+", "xr 900"))]
    own = linker(entities("XR 900", "XR 900+"), spread="same-name")
    result = own.link(docs, [{"mention": "d0-0", "entity": None}])
    assert [link.entity for link in result.links] == [None, "E1", None]


def test_the_finder_reads_signs() -> None:
    names = ["CD8+ T cell", "CD8- T cell", "(-)-carvone", "carvone", "XR 900+"]
    text = "Both CD8+ T-cells and (CD8- T cells) were given (-)-carvone or carvone by an XR 900+."
    found = find_mentions(DictionaryFinder(), [passage("d", text)], entities(*names))
    assert [mention.text for mention in found.mentions] == ["CD8+ T-cells", "CD8- T cells", *names[2:]]
    assert [link.entity_name for link in arbo.Linker(entities(*names)).link(found).links] == names


def test_a_run_grows_with_equally_near_entities() -> None:
    names = [name for pair in EQUALLY_NEAR for name in pair]
    own = arbo.Linker(entities(*names[::-1]))
    documents = [passage(f"d{i}", name, name) for i, name in enumerate(names)]
    grown = own.add(own.link(documents[:5]), documents[5:])
    assert grown.link_table.slice().equals(own.refit(grown).link_table.slice())
    assert [link.entity_name for link in grown.links] == names


@pytest.mark.parametrize("sign", [*"\u00ad\u200b\u2060\ufeff\u200d\u200c\u200e\u034f\u115f\ufe0f\U000e0001"])
def test_invisible_characters_vanish(sign: str) -> None:
    kb, name = entities("hypotension", "tension"), f"hypo{sign}tension"
    assert normalize_name(name) == "hypotension"
    documents = [passage("d", f"Severe {name}.", name)]
    (link,) = arbo.Linker(kb).link(documents).links
    assert (link.entity_name, link.mention.text) == ("hypotension", name)
    assert [mention.text for mention in find_mentions(DictionaryFinder(), documents, kb).mentions] == [name]
