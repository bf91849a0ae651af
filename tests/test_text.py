"""Abbreviations are found where a document defines them; names are folded where the difference seldom matters."""

import pytest
from builders import passage
from hypothesis import given, settings, strategies as st

import arbo
from arbo.text.abbreviations import definitions, expander
from arbo.text.names import normalize_name


def found(text: str) -> list[tuple[str, str]]:
    return [(text[slice(*short)], text[slice(*long)]) for short, long in definitions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Patients with Wilson disease (WD) were seen.", [("WD", "Wilson disease")]),
        ("Patients with Wilson disease [WD] were seen.", [("WD", "Wilson disease")]),
        ("WD (Wilson disease) is rare.", [("WD", "Wilson disease")]),
        ("Renal reflux (RR) is here.", [("RR", "Renal reflux")]),  # one word a letter comes first
        ("A case of chronic cerebral colitis (CCC).", [("CCC", "chronic cerebral colitis")]),
        ("Type-two tetanus toxin (TTTT) was given.", [("TTTT", "Type-two tetanus toxin")]),
        ("Serum amyloid (SA) rose.", [("SA", "Serum amyloid")]),
        ("The interferon (IFN) rose.", [("IFN", "interferon")]),
        ("the adenomatous polyposis coli (APC) gene", [("APC", "adenomatous polyposis coli")]),
        ("ataxia telangiectasia (A-T) cells", [("A-T", "ataxia telangiectasia")]),
        ("heat shock transcription factor (HSF; a protein)", [("HSF", "heat shock transcription factor")]),
        ("central nervous system (CNS, the brain)", [("CNS", "central nervous system")]),
        ("Duchenne muscular dystrophy (DMD or Duchenne)", [("DMD", "Duchenne muscular dystrophy")]),
        ('retinoblastoma protein ("RB")', [("RB", "retinoblastoma protein")]),
        ("a drug (acetylsalicylic acid [ASA])", [("ASA", "acetylsalicylic acid")]),
        ("poly(ADP-ribose) polymerase (PARP)", [("PARP", "poly(ADP-ribose) polymerase")]),
        (
            "seen (with Wilson disease (WD)) and [with kelp blight (KB)].",
            [("WD", "Wilson disease"), ("KB", "kelp blight")],
        ),
        *(  # an unbalanced bracket spoils nothing but itself
            (text.replace("W", "Wilson disease (WD) was seen"), [("WD", "Wilson disease")])
            for text in ("a) first, b) W.", "(open, W.", "[open, W.", "W (not closed", "closed] and W]")
        ),
        ("sea wasting disease (SWD) and kelp blight (KB)", [("SWD", "sea wasting disease"), ("KB", "kelp blight")]),
        *(
            (text, [])
            for text in (
                "",
                "no bracket at all",
                "Wilson disease (see below)",
                "Wilson disease (1912)",
                "Wilson disease (WDX)",
                "Seen in Wales. Denmark too. Nothing (WD)",
                "(WD)",
                "( )",
                "Wilson disease (a very long remark about the disease and its discovery)",
                "Wilson disease WD",
                "for obesity (OR=7.18, 95 CI=2.6), bipolar disorder (OR=13.8) and others (OR=12.619)",
                "no rejection (n = 4), chronic rejection (n=5) and recurrent nephropathy (n =5)",
                "reactive gliosis (p<0.05), and proliferation (p<0.01)",
                "oxygen reduction (n 4, of 9), recycling (OR)",
                "cells of mice (control, left) or Marsh diseased (CMD)",
            )
        ),
    ],
)
def test_a_definition_is_found_with_its_offsets(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n"])
def test_a_definition_does_not_cross_a_blank_line(blank: str) -> None:
    text = f"microarray hybridisation{blank}Lymph nodes (LNs) draining"
    assert found(text) == [("LNs", "Lymph nodes")]
    assert expander(text)("LN") == "Lymph nodes"
    for parts in ("Wilson|disease (WD)", "Wilson disease|(WD)", "Wilson disease (|WD)", "WD|(Wilson disease)"):
        assert definitions(parts.replace("|", blank)) == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n  ", "\t", "\u00a0"])
def test_a_definition_may_go_over_a_line_end_and_is_written_without(end: str) -> None:
    text = f"Seen with{end}Wilson{end}disease{end}(WD) here."
    assert found(text) == [("WD", f"Wilson{end}disease")]
    expand = expander(text)
    assert expand("WD") == "Wilson disease"
    assert expand("WD patients") == "Wilson disease patients"
    assert expand(f"Wilson{end}disease of WD") == f"Wilson{end}disease of WD"
    assert expander(f"WD (Wilson{end}disease)")("WD") == "Wilson disease"


def test_expansion_follows_the_definition() -> None:
    expand = expander("Wilson disease (WD) is rare. Wing deformity (WD) and dusk petrels (DPs) are not.")
    assert expand("WD") == "Wilson disease"
    assert expand("WDs") == "Wilson disease"
    assert expand("WD patients") == "Wilson disease patients"
    assert expand("Wilson disease (WD)") == "Wilson disease"
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
    for one, other in (pair.split("|") for pair in pairs.split(",")):
        assert (normalize_name(one) == normalize_name(other)) is alike, one


def test_what_has_no_letters_stays_itself_and_what_shows_nothing_is_nothing() -> None:
    for name in ("?!", "---", "+ +", "___", "", "   ", "\u0301"):
        assert normalize_name(name) == (name if name.strip(" \u0301") else "")


@given(st.text())
def test_any_text_gives_words_without_blanks_around(name: str) -> None:
    folded = normalize_name(name)
    assert folded == " ".join(folded.split())
    if any(character.isalnum() for character in folded):
        assert all(character.isalnum() or not character.isascii() for character in folded.replace(" ", ""))
