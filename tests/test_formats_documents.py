"""What only one format of documents has: values and faults, each inserted into its good file, and quirks of files."""

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from format_files import BIOC, PERRY, annotation, rows, tabs
from mutations import mutated
from test_formats import check_fault, check_value

from arbo import Corpus, DataError, Document, read_documents
from arbo.data.plain_lines import tables_of_lines
from arbo.data.records import Records
from arbo.data.tables import check_ids
from arbo.formats import jsonl as lines_of_json
from arbo.formats.files import line_pieces, read_items


def pubtator(*columns: object) -> str:
    return "\t".join(map(str, ("1", *columns)))


def perry(**changes: Any) -> str:
    return json.dumps({**PERRY, "tokens_number": [0], **changes})


def bioc(**changes: Any) -> str:
    return json.dumps({"id": "9", "passages": [{"offset": 0, "text": "Flu"}], **changes})


def jsonl(*mentions: object, **changes: Any) -> str:
    return json.dumps({"id": "x", "text": "flu", "mentions": list(mentions), **changes})


def chain_of(mention: str) -> str:
    """Show a mention of CoNLL, given by its place, with its number if it repeats, and its chain."""
    place, name = mention.split()
    return f"a/b/000:{place} {place.partition('#')[0]} None a/b/000/{name}"


VALUES: list[tuple[str, str, str]] = [
    *(("pubtator", pubtator(0, 3, "Flu", "Disease", *column), added) for column, added in (
        (["D1"], "1:0-3#2 0-3 Disease D1"),
        (["D1+D2"], "1:0-3#2 0-3 Disease D1 + D2"),
        ([" D1 | OMIM:2 + D3 "], "1:0-3#2 0-3 Disease D1 + OMIM:2 + D3"),
        (["D1|D1"], "1:0-3#2 0-3 Disease D1"),
        (["C++|c|SUB|A|5|G"], "1:0-3#2 0-3 Disease C++|c|SUB|A|5|G"),
        (["tmVar:p|FS|R|97||16;RS#:1"], "1:0-3#2 0-3 Disease tmVar:p|FS|R|97||16;RS#:1"),
        (["102,103"], "1:0-3#2 0-3 Disease 102,103"),
        (["-1|D1"], "1:0-3#2 0-3 Disease D1"),
        ([""], "1:0-3#2 0-3 Disease -"),
        ([], "1:0-3#2 0-3 Disease -"),
        (["../../UMLS:C1", "x"], "1:0-3#2 0-3 Disease ../../UMLS:C1 / 2 seventh columns ignored"),
    )),
    ("pubtator", pubtator("Association", "D005334", "6323", "Novel"),
     "relation lines = ['Association\\tD005334\\t6323\\tNovel', 'CID\\tD1\\tD2']"),
    ("pubtator", pubtator(0, 3, "Flu", "T047,T033", "UMLS:C1"), "1:0-3#2 0-3 T047,T033 UMLS:C1"),
    *(("brat", rows("T3\tX 0 4\tLeft", *notes)[:-1], added) for notes, added in (
        (["N8\tReference T3 GO:1\ta", "N9\tReference T3 GO:2"],
         "d:T3 0-4 X GO:1 + GO:2"),
        (["N8\tReference T3 GO:1\ta", "N9\tReference T3 GO:1\ta"], "d:T3 0-4 X GO:1"),
        (["N8\tReference T3 a b"], "d:T3 0-4 X a b"),
        (["#8\tAnnotatorNotes T3\t C0000001,C0000002+.\t "],
         "d:T3 0-4 X C0000001 + C0000002"),
        (["N8\tReference T3 GO:1\ta", "#8\tAnnotatorNotes T3\tC0000001"],
         "d:T3 0-4 X GO:1 + C0000001"),
        (["#8\tAnnotatorNotes T3\tC00000011 CC0000001"],
         "d:T3 0-4 X - / 2 annotator notes without a UMLS id ignored"),
        (["#8\tAnnotatorNotes T3"],
         "d:T3 0-4 X - / 2 annotator notes without a UMLS id ignored"),
        (["#8\tNormalized T3\tC0000001", "E1\tX:T1", "*\tEquiv T1 T2", "A1", ""],
         "other lines = ['#8\\tNormalized T3\\tC0000001', 'E1\\tX:T1', '*\\tEquiv T1 T2', 'A1', 'R1\\tside Arg1:T1']"
         " / d:T3 0-4 X -"),
    )),
    ("brat", "N8\tReference T3 GO:1\ta\nT3\tX 0 4;2 8\tLeft ft and",
     "d:T3 0-4,2-8 X GO:1"),
    ("brat", "T3\tX 15 21;0 4\tkidney   Left",
     "d:T3 15-21,0-4 X - / 1 mention texts differing from the document in white space"),
    *(("conll", tabs(*(f"a 0 {i} {chr(97 + i)} {one}" if one else "" for i, one in enumerate(columns)))[:-1],
       " / ".join([f"a/b/000 'The mayor\\nHe _ {words}'", *map(chain_of, mentions), *note]))
      for columns, words, mentions, *note in (
        (["-", "_", "*"], "a b c", []),
        (["(1)|", "(x-1)"], "a b", ["15-16 1", "17-18 x-1"]),
        (["(1|(2", "2)|1)"], "a b", ["15-18 1", "15-18#2 2"]),
        (["(1(2", "2)1)"], "a b", ["15-18 1", "15-18#2 2"]),
        (["(1(2)", "1)"], "a b", ["15-18 1", "15-16 2"]),
        (["(1", "(1", "1)", "1)"], "a b c d", ["15-22 1", "17-20 1"]),
        (["(1", "(1)", "1)"], "a b c", ["15-20 1", "17-18 1"]),
        (["(1", "(2", "1)", "2)"], "a b c d", ["15-20 1", "17-22 2"]),
        (["(1", "", "1)"], "a\\nc", ["15-18 1"]),
        (["(1", "1)(1", "1)"], "a b c", ["15-20 1", "17-18 1"]),  # the reference scorer opens before it closes
        (["(1(1", "1)1)"], "a b", ["15-18 1"], "2 repeated mentions dropped"),
    )),
    ("conll",
     "#begin document (a/b); part 001 \na 0 0 b (1)\n#end document\n#begin document (c); \nc 0 0 d\t(1)\n#end document",
     "a/b/001 'b' / a/b/001:0-1 0-1 None a/b/001/1 / c '_' / c:0-1 0-1 None c/1 / "
     "2 lines without a word"),
    ("conll", "#begin document d\n#end document", "d ''"),
    ("corefud", tabs("# newdoc", "1 a _ _ _ _ _ _ _ Entity=(GRP)", "", "1 b _ _ _ _ _ _ _ _", ""),
     r"docs:2 'a\nb' / sentences = ['\t1', '\t1'] / docs:2:0-1 0-1 None docs:2/GRP {'head': 1}"),
    ("ecbplus", perry(), "1_1ecb:0-5 0-5 HUM HUM1"),
    ("ecbplus", perry(coref_chain="Singleton_HUM_1_1_1ecb", mention_type=None, score=-1.0),
     "1_1ecb:0-5 0-5 None Singleton_HUM_1_1_1ecb"),
    ("ecbplus", perry(identity="Linda_Perry", tokens_number=[2, 1, 1]), "1_1ecb:6-16 6-16 HUM Linda_Perry HUM1"),
    ("ecbplus", perry(identity=None), "1_1ecb:0-5 0-5 HUM - HUM1"),
    ("ecbplus", perry(coref_chain=""), "1_1ecb:0-5 0-5 HUM -"),
    ("hipe", tabs("a B-A O Q1 _", "b B-A O Q1|Q2 _", "c O O _ _", "d B-A O Q1|Q1 _", "e B-A O  _")[:-1],
     r"d1 'Dr. Klee in Wien\nl. a b c d e' / d1:20-21 20-21 A Q1 / d1:22-23 22-23 A Q1 + Q2 / "
     "d1:26-27 26-27 A Q1 / d1:28-29 28-29 A -"),
    ("hipe", tabs("a I-A O Q1 _", "b I-A O Q1 _", "c B-A O Q1 _", "d I-B O Q1 _", "e O B-B _ _", "f I-B O NIL _")[:-1],
     r"d1 'Dr. Klee in Wien\nl. a b c d e f' / d1:20-23 20-23 A Q1 / d1:24-25 24-25 A Q1 / "
     "d1:26-27 26-27 B Q1 / d1:30-31 30-31 B NIL / "
     "4 mentions beginning with an I- tag / 2 nested mentions ignored"),
    ("hipe", tabs("a O O _ NoSpaceAfter|LED0.00", "b O O _ _")[:-1], r"d1 'Dr. Klee in Wien\nl. ab'"),
    ("hipe", tabs("#document_id=d3", "#\tO\tO\t_\t_", "a _ O _ _")[:-1], "d3 '# a'"),
    ("bioc", bioc(passages=[{"offset": 0, "text": "Flu", "annotations": [annotation("1", "Flu", (0, 3))] * 2}]),
     "9 'Flu' / 9:0-3 0-3 None - / 9:0-3#2 0-3 None -"),
    ("bioc", bioc(annotations=[annotation("1", "", (0, 1), (1, 1), type=7, CUI="C1; C2,C3+C4", note=None)]),
     "9 'Flu' / 9:1 0-1,1-2 7 C1 + C2 + C3 + C4 {'note': None}"),
    *(("bioc", bioc(annotations=[annotation("1", words, (2, 1), (0, 1), **infons)]),
       f"9 'Flu' / 9:1 2-3,0-1 None {added}") for words, infons, added in (
        ("F ... u", {"NCBI Homologene": "7", "note": 1}, "7 {'note': 1}"),
        ("u;F", {"NCBI Homologene": "7", "NCBI_Gene": "c|SUB|A|5|G"}, "c|SUB|A|5|G {'NCBI Homologene': '7'}"),
        ("Flu", {"Taxonomy identifier": "-", "GeneID": 5, "user identifier": "x"},
         "5 {'Taxonomy identifier': '-', 'user identifier': 'x'}"),
    )),
    ("bioc", bioc(annotations=[annotation(None, "", (0, 1), gene="-", omim=5, Mesh=[])], relations=[{"id": "R"}]),
     "9 'Flu' / relations = [{'id': 'R'}] / 9:0-1 0-1 None 5 {'gene': '-', 'Mesh': []}"),
    ("jsonl", json.dumps({"id": "x", "text": "flu", "mentions": None}), "x 'flu'"),
    ("jsonl", jsonl({"spans": [[0, 3]], "text": "flu", "by": {"sure": True}}, metadata=[1], title="Ü"),
     "x 'flu' / metadata = [1] / title = 'Ü' / x:0-3 0-3 None - {'by': {'sure': True}}"),
    ("csv", "d9,flu,0,3,,,c|SUB|A|5|G,", "d9 'flu' / d9:0-3 0-3 None c|SUB|A|5|G"),
    ("csv", "d9,\"a\n\"\"b\"\"\",,,,,,\nd9,,0,1,,,A | B,x", 'd9 \'a\\n"b"\' / d9:0-1 0-1 None A + B {\'year\': \'x\'}'),
]  # fmt: skip

CONTEXT = {"passages": [{"offset": 0, "text": "Flu"}, {"offset": 2, "text": "x"}]}
FAULTS: list[tuple[Any, ...]] = [
    *(("pubtator", "line", row, rf"'1': .*{words}") for row, words in (
        (pubtator(0, 99, "Flu", "D", "D1"), "0 to 99 must lie inside the text: .* with 0 <= start < end <= 44"),
        (pubtator(3, 3, "", "D", "D1"), "the span 3 to 3 must lie"),
        (pubtator("\u0660", 3, "Flu", "D", "D1"), "integers"),
        (pubtator("-1", 3, "Flu", "D"), "the span -1 to 3 must lie"),
        (pubtator(0, 3, "Cold", "D", "D1"), "the mention is 'Cold', but the text at 0 to 3 is 'Flu'; offsets count"),
        (pubtator(1, 4, "Flu", "D", "D1"), "the mention's text was found at 0 to 3; correct the offsets"),
        ("2\t0\t3\tFlu\tDisease\tD1", "line belongs to document '2'"),
        ("a second line of the abstract", "this line has 1"),
        (pubtator(0, 3, "Flu", "a", "b", "c", "d"), "this line has 8"),
    )),
    *(("pubtator", "document", block, *words) for block, *words in (
        ("no header", r"expected ID\|t\|text"),
        ("3|t|title", r"expected ID\|a\|text"),
        ("3|t|title\n3\t0\t1\tt\tX\tY", r"expected ID\|a\|text", 1),
        ("3|t|title\n4|a|abstract", "'3': the abstract after this title belongs to '4'"),
        ("|t|title\n|a|abstract", "document id is empty"),
        ("1|t|Flu\n1|a|again", r"'1': this id is already taken, with different content \(.*docs.txt, line 1\)"),
    )),
    *(("brat", "line", line, words) for line, words in (
        ("T3\tX 0 99\tLeft", "'d:T3': the span 0 to 99 must lie inside the text: .* <= 27, its number"),
        ("T3\tX 0 4;\tLeft", "not ''"),
        ("T3\tX 0\tLeft", "expected `start end` after the label"),
        ("T3\tX 0 \u0664\tLeft", "integers"),
        ("T3\tX 0 4\tRight", "the text of the mention is 'Right', but the text at 0 to 4 is 'Left'; offsets count"),
        ("T3\t 0 4\tLeft", "no label"),
        ("T3\tX 0 4", "expected 3 tab-separated columns .*, not 2"),
        ("T1\tX 0 4\tLeft", "'d:T1': two T lines of this document have this id; change one"),
        ("N1\tReference T9 A:1\ta", "'d:T9': this mention has a gold id but no T line"),
        ("#1\tAnnotatorNotes T9\tC0000001", "'d:T9': this mention has a gold id but no T line"),
        ("N1\tReference T1\ta", "'N1': expected `Reference T1 ONTOLOGY:ID`"),
    )),
    *(("gsc", "line", line, f"'11': .*{words}") for line, words in (
        ("10\t99\trenal\tHP:1", "10 to 99 must lie inside the text: .* < end <= 22"),
        ("10\t21\tRenal cysts\tHP:1", "'Renal cysts', but the text at 10 to 21 is .*; offsets count"),
        ("10\t21\trenal cysts", "this line has 3"),
        ("10\t21\trenal cysts\t ", "none of them empty"),
    )),
    *(("gsc", "document", f"{block}\n", words) for block, words in (
        ("13", "'13': expected a document id, its text on the next line"),
        ("10\t21\trenal\tHP:1\ntext", "expected a document id"),
        ("11\nOther.", r"'11': this id is already taken, with different content \(.*line 1\)"),
    )),
    *(("hipe", "line", tabs(line)[:-1], words) for line, words in (
        ("a B-A O Q1", "'d1': expected 5 columns, or a word and a tag, not 4"),
        (" B-A O Q1 _", "'d1': the token is empty"),
        ("a X-A O Q1 _", "expected O, B-type or I-type in NE-COARSE-LIT, not 'X-A'"),
    )),
    ("hipe", "document", tabs("#document_id = d1", "y O O _ _")[:-1], "'d1': this id is already taken"),
    ("hipe", "document", "# document_id =", "the document id is empty"),
    ("conll", "line", "word", "'a/b/000': expected several columns"),
    ("conll", "document", "#begin document (c); part 000\na 0 0 b -", "'c/000': `#end document` is missing"),
    ("conll", "document", "#begin document (a/b); part 000\n#end document", "'a/b/000': this id is already taken"),
    ("conll", "document", "#begin document\n#end document", "document id is empty"),
    ("conll", "document", "a 0 0 b -", r"a word outside a document; a document begins with `#begin document \(n", 0,
     "lines"),
    ("corefud", "line", "5 he", "'d': expected the ten columns of CoNLL-U, separated by tabs"),
    ("corefud", "document", "# newdoc id = d\n1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n", "'d': this id is already taken"),
    *(("ecbplus", "line", tabs(words)[:-1], error) for words, error in (
        ("1_1ecb 0 0", "expected at least 4 tab-separated columns"),
        ("1_1ecb x 0 word", "'1_1ecb': sentence and word must be integers, not 'x' and '0'"),
        ("1_1ecb 0 -1 word", "must be integers, not '0' and '-1'"),
    )),
    *(("ecbplus", "mention", mention, words) for mention, words in (
        ('"text"', "mention 4 must be a JSON object, not a string"),
        (perry(tokens_number=[9]), "'1_1ecb': mention 4: the corpus has no word 9 in sentence 0"),
        (perry(tokens_number=[]), "'tokens_number' of mention 4 must be a list of integers, not empty, not this list"),
        (perry(sent_id="0"), "'sent_id' of mention 4 must be an integer, not a string"),
        (perry(coref_chain=5), "'coref_chain' of mention 4 must be a string, not a number"),
        (perry(mention_type=["HUM"]), "'mention_type' of mention 4 must be a string"),
    )),
    ("ecbplus", "mention", perry(doc_id="9_9ecb"), "'9_9ecb': X_corpus.txt has no such document", 0, "documents"),
    *(("bioc", "document", piece, f"docs.json, document 2, '9': .*{words}") for piece, words in (
        (bioc(**CONTEXT), "the offset 2 after a text that ends at 3"),
        (bioc(passages=[{"offset": 10**12, "text": "Flu"}]), "gaps of at most 10,000"),
        (bioc(passages=[{"text": "Flu"}]), "a passage needs the key 'offset'"),
        (bioc(annotations=[annotation(None, "Wilson", (0, 3))]),
         "the text of the mention is 'Wilson', but the text at 0"),
        (bioc(annotations=[annotation(None, "Fu", (0, 1), (1, 1))]),
         "the text of the mention is 'Fu', but the text at 0"),
        (bioc(annotations=[annotation(None, "", (3, 600))]), "a location of an annotation must lie inside"),
        (bioc(infons=[]), "'infons' of a BioC document must be an object"),
    )),
    ("bioc", "document", json.dumps({**BIOC, "infons": {}, "passages": []}), "a location of an annotation must"),
    *(("jsonl", "document", piece, words) for piece, words in (
        ("{", "not JSON: .* at character 2; write each object on one line"),
        ('{"id": "x"} {"id": "y"}', "not JSON: Extra data"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "9" * 10_000 + "}", "a number with thousands of digits"),
        ("[]", "a document must be a JSON object, not this list"),
        ('{"id": "x"}', "'x': a document needs the key 'text'"),
        (jsonl(by="\udfff"), r"'x': the metadata has a surrogate \(U\+DFFF\)"),
        (jsonl(id=7), r"'id' of a document must be a string \(in quotes\), not a number"),
        (jsonl(id="d1"), r"'d1': this id is already taken, with different content \(.*line 1\)"),
        (jsonl(5), "'x': a mention must be a JSON object, not a number"),
        (jsonl({}), "'x': a mention needs the key 'spans'"),
        (jsonl({"id": "m", "spans": [[1, 3]], "text": "flu"}),
         "'m': the text of the mention is 'flu', but the text at 1"),
        (jsonl({"spans": [[0, 3]], "text": 5}), "'text' of a mention must be a string"),
        (jsonl({"spans": [[0, 4]]}), "'x:0-4': a span ends at 4, but document 'x' has 3 characters"),
        (jsonl({"spans": [[0, 3]], "entities": "D1"}), "'entities' of a mention must be a list of strings, not a str"),
    )),
    *(("csv", "document", line, f"docs.csv, line 3.*{words}", 0, kind) for line, words, kind in (
        ("d5,flu,0,3,m5,,,,,", "the line has 10 cells for 8 columns .*; quote the cells", "rows"),
        (",flu,0,3,m5,,,", "the cell 'document_id' is empty", "rows"),
        ("d5,flu,0,9,m5,,,", "a span ends at 9", "documents"),
        *((f"d5,flu,{start},3,m5,,,", "'start' .* must be a whole number", "rows")
          for start in ("x", "1e0", "0_1", "1.5", "\u0661")),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "piece", "added"), VALUES)
def test_values(tmp_path: Path, name: str, piece: str, added: str) -> None:
    check_value(tmp_path, "documents", name, piece, added)


@pytest.mark.parametrize(("name", "place", "piece", "words", "more"), [(*row[:4], row[4:]) for row in FAULTS])
def test_faults(tmp_path: Path, name: str, place: str, piece: str, words: str, more: tuple[Any, ...]) -> None:
    check_fault(tmp_path, "documents", name, place, piece, words, *more)


@pytest.mark.parametrize("seed", range(4))
def test_plain_lines_are_read_as_columns_with_the_same_result(seed: int, tmp_path: Path) -> None:
    chance, n = random.Random(seed), 0
    mention = {"id": "m", "spans": [[0, 2]], "type": "A", "entities": ["e", "f"], "cluster": "c"}
    name = {"id": "n", "spans": [[1, 3]], "type": None, "entities": None}
    some = [jsonl(mention, name), jsonl({**name, "id": "o"}, id="y", text="Ż日本", domain="d")]
    some += [jsonl(id="z"), '{"id": "w", "text": "é"}']
    for _ in range(300):
        lines, tables = "\n".join(chance.sample(some, chance.choice([1, 2]))).encode(), None
        lines = mutated(lines, chance) if chance.random() < 0.9 else lines
        with suppress(DataError, ValueError, TypeError, AttributeError, OverflowError):
            check_ids(made := tables_of_lines(lines.removesuffix(b"\n").decode()))
            tables = made
        if tables is not None:
            (file := tmp_path / "a.jsonl").write_bytes(lines)
            records: Records[Document] = Records("documents")
            other = Corpus(read_items(file, (), line_pieces, lines_of_json.document, records)).tables
            assert tables.documents.equals(other.documents)
            assert tables.mentions.equals(other.mentions)
            assert read_documents(file).fingerprint == Corpus(other).fingerprint
            n += 1
    assert n > 20
