"""A small good file of every format, with the places where a test inserts a piece of its own: `@@` and `%%`."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Files = dict[str, str]
"""Texts of files by name. `@@` is the place of a further line or mention, `%%` that of a further document or entity."""


def rows(*lines: object) -> str:
    """Join lines; objects become JSON."""
    return "".join(f"{line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def tabs(*lines: str) -> str:
    """Join lines in which blanks stand for tabs; those of comments stay."""
    return rows(*(line if line.startswith("#") else line.replace(" ", "\t") for line in lines))


def annotation(id_: str | None, text: str, *places: tuple[int, int], **infons: Any) -> dict[str, Any]:
    """Make an annotation of BioC at places of (offset, length)."""
    locations = [{"offset": offset, "length": length} for offset, length in places]
    return {"id": id_, "infons": infons, "text": text, "locations": locations}


TITLE, ABSTRACT = "\U0001f98a Wilson disease", "Left and right kidney. Flu."
BIOC = {
    "id": "12", "infons": {"journal": "J"}, "passages": [
        {"offset": 0, "infons": {"type": "title"}, "text": TITLE, "relations": [], "annotations": [
            annotation("1", "Wilson disease", (2, 14), type="Disease", MESH="D006527", note="x"),
        ]},
        {"offset": 17, "infons": {"type": "abstract"}, "text": ABSTRACT, "annotations": [
            annotation("2", "Left ... kidney", (17, 4), (32, 6), type="Organ", identifier="A:1|A:2"),
            annotation("3", "Flu", (40, 3), type="Disease", identifier="-1"),
            annotation("4", "Flu", (40, 3), type="Disease", identifier=None, identifiers=["MESH:1", "a|b"]),
            annotation("5", "", type="MeSH", identifier="D1") | {"locations": None},
        ]},
    ],
    "annotations": [annotation("6", "disease\nLeft", (9, 12), type="X")],
    "relations": [{"id": "R1", "infons": {}, "nodes": []}],
}  # fmt: skip
BIOC_XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>s</source><date/><key/>
<document><id>12</id><infon key="journal">J</infon>
<passage><infon key="type">title</infon><offset>0</offset><text>Wilson <b>&amp;<!-- and --></b> disease</text>
<annotation id="1"><infon key="type">Disease</infon><infon key="MESH">D1</infon>
<location offset="0" length="6"/><location offset="9" length="7"/><text>Wilson disease</text></annotation>
<relation id="R1"><node refid="1" role="a"/></relation></passage>
<passage><offset>17</offset><sentence><offset>17</offset><text>One.</text></sentence>
<sentence><offset>23</offset><text>Flu.</text>
<annotation id="2"><infon key="type">Disease</infon><location offset="23" length="3"/><text>Flu</text></annotation>
</sentence></passage></document></collection>
"""
NBIB = "PMID- 123\nOWN - NLM\nTI  - Marsh fever\n      in birds.\nAB  - AIM: To count - by night\n      and day."
PUBMED_XML = """<?xml version="1.0"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" "pubmed.dtd">
<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">123</PMID><Article>
<ArticleTitle>Marsh <i>fever</i>
 in birds.</ArticleTitle><Abstract><AbstractText Label="AIM">To count - by night</AbstractText>
<AbstractText>and day.</AbstractText></Abstract></Article></MedlineCitation>
<PubmedData><ReferenceList><Reference><ArticleIdList><ArticleId>9</ArticleId></ArticleIdList></Reference></ReferenceList>
</PubmedData></PubmedArticle><PubmedArticle><MedlineCitation><PMID>124</PMID><Article><ArticleTitle>Other.</ArticleTitle>
</Article></MedlineCitation></PubmedArticle></PubmedArticleSet>
"""
PERRY = {"doc_id": "1_1ecb", "sent_id": 0, "tokens_number": [0, 1], "coref_chain": "HUM1", "mention_type": "HUM"}
KIDNEY = {
    "id": "d1",
    "text": "Left and right kidney.\r\nFlu \U0001f98a (WD)\u2028",
    "domain": "x",
    "topic": 3,
    "mentions": [
        {"id": "m1", "spans": [[0, 4], [15, 21]], "type": "Organ", "entities": ["A:1", "A:2"], "score": 0.5},
        {"spans": [[9, 21]], "entities": [], "cluster": "c", "x": {"y": [1]}, "text": "right kidney"},
        {"spans": [[9, 21]], "type": None, "entities": None, "id": None},
    ],
}
ENTITY = {
    "id": "D1", "name": "flu", "aliases": ["grippe", ""], "definition": "A fever.", "types": ["Disease"],
    "alternative_ids": ["12"], "xrefs": ["M:1"], "domain": "x", "year": 1990,
}  # fmt: skip

DOCUMENTS: dict[str, Files] = {
    "bioc": {"docs.json": f'{{"documents": [{json.dumps(BIOC)},%%]}}'},
    "bioc xml": {"docs.xml": BIOC_XML},
    "brat": {
        "d.ann": rows(
            "T1\tUBERON 0 4;15 21\tLeft kidney", "N1\tReference T1 UBERON:0004538\tleft kidney", "@@",
            "#1\tAnnotatorNotes T1\tC0227613", "T2\tMONDO 23 26\tFlu", "R1\tside Arg1:T1",
            "#2\tAnnotatorNotes T2\tsure?", "N3\tReference E1 A:2\ta",
        ),
        "d.txt": "Left and right kidney. Flu.",
    },
    "conll": {
        "docs.conll": rows(
            "# global", "#begin document (a/b); part 000", "# comment", "a/b 0 0 The DT (12",
            "a/b 0 1 mayor NN 12)|(7)", "", "", "a/b 0 0 He PRP (12)|(12)", "a/b (3)", "@@", "#end document", "%%",
        )
    },
    "corefud": {
        "docs.conllu": tabs(
            "# newdoc id = d", "# global.Entity = eid-etype-head-other", "# sent_id = s1", "# text = The mayor",
            "1 The _ _ _ _ 2 det _ Entity=(e12-person-2-x:1(e1--1)",
            "2 mayor _ _ _ _ 0 _ _ SpaceAfter=No|Entity=e12)(e3[1/2]--2",
            "3-4 don't _ _ _ _ _ _ _ _", "3 do _ _ _ _ 0 _ _ Entity=e3[1/2])", "3.1 _ _ _ _ _ _ _ _ Entity=(e12--1)",
            "4 n't _ _ _ _ 0 _ _ Bridge=e1<e3|Entity=(e3[2/2]--2)", "@@", "", "# sent_id = s2",
            "1 He _ _ _ _ 0 _ _ Entity=(e1-person-9)", "", "%%", "# newdoc id = e", "1 nothing _ _ _ _ 0 _ _ _",
        ).replace("n't", "n 't")
    },
    "csv": {
        "docs.csv": rows(
            "document_id,text,start,end,mention_id,type,entities,year", 'd1,"Flu, and cold",0,3,m1,Disease,D1|D2,1990',
            "%%", "d1,,9,13,m2,,,", "d2,nothing,,,,,,7",
        )
    },
    "ecbplus": {
        "X_corpus.txt": tabs(
            "1_1ecb 0 0 Perry HUM1", "1_1ecb 0 1 left -", "1_1ecb 0 2 rehab  LOC1", "",
            "1_1ecb 3 0 She HUM1", "@@", "%%",
        ),
        "X_Entity_gold_mentions.json": json.dumps(
            [
                {**PERRY, "sent_id": 3, "tokens_number": [0]}, PERRY,
                {**PERRY, "tokens_number": [2, 0]}
            ]
        )[:-1] + ",@@]",
    },
    "gsc": {
        "docs.tsv": rows(
            "11", "Bilateral renal cysts.", "10\t21\trenal cysts\tHP:0000107", "16\t21\tcysts\tHP:1", "@@", "", "",
            "%%", "12", "Nothing.",
        )
    },
    "hipe": {
        "docs.tsv": tabs(
            "TOKEN NE-COARSE-LIT NE-NESTED NEL-LIT MISC", "# ajmc:title = Ajax", "# hipe2022:document_id = d1",
            "# hipe2022:date = 1881", "", "Dr B-pers O Q5 NoSpaceAfter", ". I-pers B-x Q6 _",
            "Klee I-pers O Q5 LED0.00", "in O O _ _", "Wien B-loc O NIL NoSpaceAfter|EndOfSentence",
            "l. I-scope O _ _", "@@",
            "%%", "# hipe2022:document_id = d2", "x O O _ NoSpaceAfter", "y O O _ _",
        )
    },
    "jsonl": {"docs.jsonl": rows(KIDNEY, "%%", "", {"id": "d3", "text": " \n"})},
    "pubmed": {"docs.nbib": rows("", NBIB, "", "%%", "", "PMID- 124", "TI  - Other.")},
    "pubmed xml": {"docs.xml": PUBMED_XML},
    "pubtator": {
        "docs.txt": rows(
            "1|t|Flu and cold.", "1|a|Influenza (flu) is not a cold.", "1\t0\t3\tFlu\tDisease\tD1|D2\tFlu|cold",
            "1\t8\t12\tcold\tDisease\t-1", "1\t8\t12\tcold  \tDisease", "@@", "1\tCID\tD1\tD2", "", " ", "%%",
            "2|t|\U0001f600 Bechterew\u0301|t|", "2|a||", "2\t2\t12\tBechterew\u0301\t\t",
        )
    },
    "text": {"docs.txt": "Marsh fever (MF).\n\u00e9\n"},
    "tsv": {
        "docs.tsv": rows(
            "document_id\ttext\tstart\tend\tentities", "d\tflu and\t0\t3\tD1", "%%", 'e\t"a ""b"""\t\t\t'
        )
    },
}  # fmt: skip

HEADER = "format-version: 1.2\ndefault-namespace: organs\n"
ORGAN = r"""[Term]
id: U:1
name: kidney {source="x"} ! the organ
alt_id: U:10
alt_id: U:11
def: "A paired organ, \"nephros\" ! in Greek." [ISBN:1, http://example.org/a\:b] {comment="x"}
synonym: "reins" RELATED ARCHAIC [A:1] ! a comment
synonym: "nephros\, the" EXACT []
exact_synonym: "ren" []
xref: UMLS:C1 "Kidney"
xref: MESH:D1 {source="x"}
xref: http\://example.org/k
xref: ! none
is_a: U:2 ! organ
relationship: part of something strange
"""
OBO_IRI = "http://purl.obolibrary.org/obo/"
IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"


def node(number: str, label: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": f"{OBO_IRI}{number}", "type": "CLASS", **({} if label is None else {"lbl": label}), **more}


def properties(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"basicPropertyValues": [{"pred": pred, "val": value} for pred, value in pairs]}


SEIZURE = {
    "definition": {"val": "An abnormal discharge.", "xrefs": ["HPO:x"]},
    "synonyms": [{"pred": "hasExactSynonym", "val": "Fit"}, {"pred": "hasRelatedSynonym", "val": "Convulsion"}],
    "xrefs": [{"val": "UMLS:C0036572"}, {"val": "UMLS:C0036572"}],
    **properties((f"{IN_OWL}hasOBONamespace", "human_phenotype"), (f"{IN_OWL}hasAlternativeId", "HP:0001275")),
}
NODES: list[dict[str, Any]] = [
    node("HP_0001250", "Seizure", meta=SEIZURE),
    node("HP_2", "Fever"),
    node("BFO_1"),
    node("RO_1", "part of", type="PROPERTY"),
    node("HP_3", "old", meta={"deprecated": True, **properties((f"{OBO_IRI}IAO_0100001", f"{OBO_IRI}HP_4"))}),
    node("HP_4", "older", meta={"deprecated": True, **properties((f"{OBO_IRI}IAO_0100001", "HP:2"))}),
]
GRAPH = {"meta": properties((f"{IN_OWL}default-namespace", "hp")), "nodes": NODES}


def umls_name(cui: str, text: str, aui: str, ranks: str = "P PF Y", language: str = "ENG", suppress: str = "N") -> str:
    """Make a row of MRCONSO."""
    status, kind, preferred = ranks.split()
    return f"{cui}|{language}|{status}|L1|{kind}|S1|{preferred}|{aui}||M1|D1|MSH|MH|D1|{text}|0|{suppress}|256|"


def umls_type(cui: str, tui: str, number: str) -> str:
    """Make a row of MRSTY."""
    return f"{cui}|{tui}|{number}|Type {tui}|AT1|256|"


def umls_definition(cui: str, aui: str, text: str, suppress: str = "N") -> str:
    """Make a row of MRDEF."""
    return f"{cui}|{aui}|AT1||MSH|{text}|{suppress}||"


ENTITIES: dict[str, Files] = {
    "csv": {"kb.csv": rows("ID;Name;Aliases;Parents", 'D1;"flu; it";a | "b" c;D0|D9', "%%", 'D2;"a ""cold""";;')},
    "jsonl": {"kb.jsonl": rows(ENTITY, "%%", {"id": "D2", "name": "cold", "definition": None})},
    "medic": {"kb.txt": rows("D1|12|C3||flu|grippe||influenza", "%%", "", "C4||cold")},
    "obo": {
        "kb.obo": f"{HEADER}\n[Typedef]\nid: part_of\nname: part of\n{ORGAN}%%\n"
        "[Term]\nid: U:2\nname: organ\nnamespace: viscera\n! a comment\n"
    },
    "obographs": {"kb.json": f'{{"graphs": [{json.dumps(GRAPH)[:-2]},%%]}}]}}'},
    "tsv": {"kb.tsv": rows("id\tname\taliases\tdefinition", "D1\tflu\ta| b|\tx", "%%", '"D2"\tcold\t\t', "")},
    "umls": {
        "MRCONSO.RRF": rows(
            umls_name("C1", "Grippe", "A1", "S PF Y"), umls_name("C1", "Gripe", "A2", "P PF Y", "SPA"),
            umls_name("C1", "influenza", "A3", "P VC Y"), umls_name("C1", "Influenza", "A4"),
            umls_name("C1", "Influenza", "A5", "P PF N"), umls_name("C1", "Flu 'n' \"co\" <b>", "A6", "S PF Y"),
            umls_name("C1", "Influenza NOS", "A7", "S PF Y", suppress="O"), "@@", "%%", umls_name("C2", "Cold", "A8"),
        ),
        "MRSTY.RRF": rows(
            umls_type("C1", "T047", "B2.2.1.2.1"), "@@", umls_type("C1", "T033", "A2.2"),
            umls_type("C1", "T047", "B2.2.1.2.1")
        ),
        "MRDEF.RRF": rows(
            umls_definition("C1", "A2", "Una enfermedad."), "@@", umls_definition("C1", "A4", "Out of date.", "O"),
            umls_definition("C1", "A7", "A disease."), umls_definition("C1", "A1", "Another text."),
        ),
    },
}  # fmt: skip
FOLDERS = {"brat", "ecbplus", "umls"}
"""Formats of several files in one folder; of the others, the first file is the path that is read."""
_PLACE = re.compile(r"(,?)(@@|%%)(\n?)")


def filled(text: str, **pieces: str) -> str:
    """Replace each place of a text by its piece, if it has one."""
    names = {"@@": "line", "%%": "document"}
    return _PLACE.sub(lambda m: f"{m[1]}{piece}{m[3]}" if (piece := pieces.get(names[m[2]])) is not None else "", text)


def save(
    folder: Path, name: str, files: Files, change: Callable[[str, str], bytes] | None = None, **piece: str
) -> Path:
    """Write files with a piece in the first file with its place, or in the file `into`, and return the path to read.

    `change` makes the bytes of each text; gzipped bytes go to a file with the ending `.gz`.
    """
    into, paths = piece.pop("into", None), []
    for file, text in files.items():
        own = filled(text, **(piece if into in (None, file) else {}))
        if into is None and own != filled(text):
            piece = {}
        content = own.encode() if change is None else change(file, own)
        path = folder / (f"{file}.gz" if content.startswith(b"\x1f\x8b") else file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths.append(path)
    return folder if name in FOLDERS else paths[0]


def zipped(_: str, text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)
