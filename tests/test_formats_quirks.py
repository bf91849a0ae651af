"""What only one format has beyond values and faults: its files, texts and forms; what curators have."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders import save_lines
from format_files import BIOC, BIOC_XML, PERRY, PUBMED_XML, save, tabs
from test_formats import read

import arbo
from arbo.errors import DataError, UsageError
from arbo.formats import read_documents, read_knowledge_base
from arbo.formats.brat import read_documents as read_brat
from arbo.kb.saving import save as save_kb

OPTIONS: Any = {"on_error": "skip"}


def write(folder: Path, **files: str | bytes) -> Path:
    """Write files; `__` in a name stands for a point."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_texts_of_brat_are_never_normalised(tmp_path: Path) -> None:
    text = "a\r\nb\x85c\u2028d e\u0301\r\n"
    corpus = read_brat(write(tmp_path, d__txt=text, d__ann="T1\tX 3 4\tb\nT2\tX 9 11\te\u0301\nT3\tX 0 1;3 4\ta b\n"))
    assert (corpus[0].text, corpus.notes) == (text, {})
    with pytest.raises(DataError, match="the offsets seem to count each line end as one character; save the text with"):
        read_brat(write(tmp_path, d__ann="T1\tX 2 3\tb"))
    pieces = "T1\tX 0 4;5 10\tLeft lines\nT2\tX 0 10\tLeft lines"
    corpus = read_brat(write(tmp_path, d__txt="Left\nlines", d__ann=pieces))
    assert [m.text for m in corpus.mentions] == ["Left lines", "Left\nlines"]


@pytest.mark.parametrize(("start", "unit"), [(len("\U0001f600 ".encode()), "UTF-8 bytes"), (3, "UTF-16 units")])
def test_offsets_in_other_units_are_refused_and_named(tmp_path: Path, start: int, unit: str) -> None:
    with pytest.raises(DataError, match=f"'d:T1': .* the offsets seem to count {unit}"):
        read_brat(write(tmp_path, d__txt="\U0001f600 flu and more", d__ann=f"T1\tX {start} {start + 3}\tflu"))
    block = f"1|t|\U0001f600 flu\n1|a|and more\n1\t{start}\t{start + 3}\tflu\tX\tD1\n"
    with pytest.raises(DataError, match=f"line 3, '1': .* the offsets seem to count {unit}"):
        read_documents(write(tmp_path, docs__txt=block) / "docs.txt", "pubtator")


def test_pairs_of_brat(tmp_path: Path) -> None:
    write(tmp_path, **{f"{name}__{end}": name * (end == "txt") for name in ("b", "a.1", "a") for end in ("txt", "ann")})
    packed = gzip.compress(b"packed")
    write(tmp_path, LICENSE__txt="Do as you like.", c__txt__gz=packed, c__ann="T1\tX 0 6\tpacked\n", docs__xml="")
    corpus = read_brat(tmp_path)
    assert {document.id: document.text for document in corpus} == {"a": "a", "a.1": "a.1", "b": "b", "c": "packed"}
    assert corpus.notes == {"texts without annotations ignored": 1}
    for named in ("c.txt.gz", "c.ann"):
        assert [document.id for document in read_brat(str(tmp_path / named))] == ["c"]
    with pytest.raises(DataError, match=r"a file that ends in \.txt, \.ann; unpack an archive first"):
        read_brat(tmp_path / "docs.xml")
    (tmp_path / "b.ann").unlink()
    with pytest.raises(DataError, match=r"the file b\.ann beside this one is missing"):
        read_brat(tmp_path / "b.txt")
    write(tmp_path, e__ann="")
    with pytest.raises(DataError, match=r"e\.ann, line 1: the file e\.txt beside this one is missing"):
        read_brat(tmp_path)
    assert read_brat(tmp_path, **OPTIONS).notes["malformed documents skipped"] == 1
    (tmp_path / "a.ann").unlink()
    write(tmp_path, a__txt__gz=packed, e__txt="")
    with pytest.raises(DataError, match=r"this file occurs again as .*; remove one of the two"):
        read_brat(tmp_path)


@pytest.mark.parametrize(
    ("columns", "line", "words"),
    [
        (["1)"], 2, "chain 1 ends a mention here that has not begun"),
        (["(2)", "(1"], 3, "chain 1 begins a mention here that does not end"),
        (["word"], 2, r"expected brackets such as `\(1`, `1\)` or `\(1\)\|\(2`, not 'word'"),
        (["(1)|-"], 2, "expected brackets"),
        *((["(" * 100_000], 2, "expected brackets"), (["x" * 100_000], 2, "expected brackets")),
    ],
)
def test_malformed_brackets_are_named_or_ignored(tmp_path: Path, columns: list[str], line: int, words: str) -> None:
    lines = [f"a\t0\t{i}\t{chr(97 + i)}\t{column}" for i, column in enumerate([*columns, "(9)"])]
    path = save_lines(tmp_path / "a.conll", "#begin document (a); part 000", *lines, "#end document")
    with pytest.raises(DataError, match=words) as caught:
        read_documents(path, "conll")
    assert (caught.value.line, caught.value.id) == (line, "a/000")
    corpus = read_documents(path, "conll", **OPTIONS)
    assert (corpus.notes, corpus.mentions[-1].text) == ({"malformed lines skipped": 1}, "abc"[len(columns)])


def ecbplus(folder: Path, words: str, mentions: str = "[]", name: str = "X", kind: str = "Entity") -> Path:
    return write(folder, **{f"{name}_corpus__txt": words, f"{name}_{kind}_gold_mentions__json": mentions})


WORDS = tabs("1_1ecb 0 0 Perry HUM1", "1_1ecb 0 1 left -")


def test_files_of_ecbplus(tmp_path: Path) -> None:
    for name, end in (("ecbplus", r"_corpus\.txt"), ("brat", r"\.ann")):
        with pytest.raises(DataError, match=f"the folder has no file that ends in {end}"):
            read_documents(write(tmp_path), name)
    ecbplus(tmp_path, WORDS, json.dumps([PERRY]))
    with pytest.raises(DataError, match=r"it must be X_Event_gold_mentions\.json in the same folder"):
        read_documents(tmp_path, "ecbplus-events")
    ecbplus(tmp_path, WORDS, json.dumps([{**PERRY, "tokens_number": [1], "mention_type": "ACT"}]), kind="Event")
    assert [m.text for m in read_documents(tmp_path, "ecbplus").mentions] == ["Perry left"]
    assert [m.text for m in read_documents(tmp_path, "ecbplus-events", types="ACT").mentions] == ["left"]
    assert len(read_documents(tmp_path / "X_corpus.txt", "ecbplus").mentions) == 1
    ecbplus(tmp_path, WORDS, json.dumps([PERRY]), "Y")
    assert read_documents(tmp_path, "ecbplus").notes["duplicate documents dropped"] == 1
    ecbplus(tmp_path, WORDS, "[]", "Y")
    with pytest.raises(DataError, match=r"Y_corpus.txt, line 1, '1_1ecb': this id is already taken"):
        read_documents(tmp_path, "ecbplus")
    write(tmp_path, words__txt=WORDS)
    with pytest.raises(DataError, match=r"expected a folder, or a file that ends in _corpus\.txt"):
        read_documents(tmp_path / "words.txt", "ecbplus")
    with pytest.raises(UsageError, match="no topic in the metadata of 1 document, such as 'GUM_bio_x'"):
        read_documents(ecbplus(tmp_path / "gum", "GUM_bio_x\t0\t0\tPerry\n"), "ecbplus").by_topic()


TAGGED = [
    ("EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n", "a EU rejects/Peter: EU=ORG, Peter=PER"),
    ("-DOCSTART- O\n\nNew I-LOC\nYork I-LOC\n\n-DOCSTART- O\n\n# # O\nx I-A\ny B-A",
     "a:1 New York: New York=LOC a:6 # x y: x=A, y=A"),
    ("# sent_id = 1\nx S-A\nfar B-B\noff E-B\n. O\n", "a x far off .: x=A, far off=B"),
    ("x\tB-A\tQ1|Q2\ny\tI-A\tQ1|Q2\nz\tB-B\t-\nz\tB-B\tNIL\n", "a x y z z: x y=A Q1 Q2, z=B, z=B NIL"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.conll"])
@pytest.mark.parametrize(("content", "documents"), TAGGED)
def test_tagged_words_need_no_header(tmp_path: Path, name: str, content: str, documents: str) -> None:
    found = []
    for one in read_documents(save(tmp_path, name, {name: content})):
        golds = ["" if m.gold is None else " " + (" ".join(m.gold) or "NIL") for m in one.mentions]
        mentions = (f"{m.text}={m.type}{gold}" for m, gold in zip(one.mentions, golds, strict=True))
        found.append(f"{one.id} {one.text}: {', '.join(mentions)}".replace("\n", "/"))
    assert " ".join(found) == documents


def test_columns_of_hipe_are_found_by_name_and_the_first_of_two_counts(tmp_path: Path) -> None:
    corpus = read_documents(save(tmp_path, "a.tsv", {"a.tsv": "x\tB\ny\tI\nz\tB\n"}), "hipe")
    assert [(m.text, m.type, m.gold) for m in corpus.mentions] == [("x y", None, None), ("z", None, None)]
    with pytest.raises(DataError, match="line 2, 'b': expected 4 columns, or a word and a tag, not 1"):
        read_documents(save(tmp_path, "b.tsv", {"b.tsv": "x\tB-A\ny\n"}), "hipe")
    for header, row, gold in (
        ("NEL-LIT TOKEN NE-COARSE-LIT", "Q1 x B-A", "Q1"),
        ("TOKEN NE-COARSE-LIT NEL-LIT NEL-LIT", "x B-A Q90 NIL", "Q90"),
    ):
        path = write(tmp_path, a__tsv=tabs(header, "# document_id = d", row)) / "a.tsv"
        assert [(m.text, m.gold) for m in read_documents(path, "hipe").mentions] == [("x", (gold,))]


@pytest.mark.parametrize("form", ["object", "list", "lines", "indented", "collections", "PubTator3"])
def test_an_object_a_list_or_lines(tmp_path: Path, form: str) -> None:
    first: dict[str, Any] = BIOC
    inner = [first, first | {"id": "13"}]
    content = {
        "object": json.dumps(first, indent=1),
        "list": json.dumps(inner),
        "lines": "\n\n".join(map(json.dumps, inner)),
        "indented": json.dumps(inner, indent=1),
        "collections": json.dumps([{"documents": [one]} for one in inner]),
        "PubTator3": json.dumps({"PubTator3": inner}),
    }[form]
    corpus = read_documents(write(tmp_path, docs__json=content) / "docs.json")
    assert [one.id for one in corpus] == ["12", "13"][: 1 if form == "object" else 2]


EXTERNAL = '<!ENTITY a SYSTEM "file:///etc/hostname">'
NESTED = '<!ENTITY a "b"><!ENTITY c "&a;&a;">'
DEEP_XML = f"<document>{'<passage>' * 100_000}{'</passage>' * 100_000}</document>"
JSON_LIST = "X_Entity_gold_mentions.json"
MALFORMED: list[tuple[str, str, str, str]] = [
    ("a.xml", "pubmed", "TI  - No id.\n\nPMID- 1\nTI  - x\n", "line 1: an article has no PMID"),
    ("a.xml", "pubmed", PUBMED_XML.replace("</PubmedArticleSet>", ""), "not XML"),
    ("a.xml", "pubmed", PUBMED_XML.replace("<PMID>124</PMID>", ""), "an article has no PMID"),
    *(("X_corpus.txt", "ecbplus", WORDS + words, error) for words, error in (
        (tabs("1_1ecb 0 1 He"), "line 3, '1_1ecb': sentence 0 has word 1 twice"),
        (tabs("1_2ecb 0 0 He", "1_1ecb 4 0 He"), r"line 4, '1_1ecb': this id is already taken, .* \(.*line 1"),
    )),
    *((JSON_LIST, "ecbplus", mentions, error) for mentions, error in (
        ('[\n{"doc_id": }]', "line 2: not JSON: Expecting value"),
        ("{}", "expected a JSON list of mentions"),
        ("[" * 100_000, "nested too deeply"),
    )),
    ("a.tsv", "hipe", tabs("TOKEN NE-COARSE-LIT NEL-LIT", "x O O"),
     "line 2: a token before any document; a document begins with"),
    ("a.tsv", "hipe", "TOKEN\tMISC\n", "line 1: the header has no column NE-COARSE-LIT and no NEL-LIT"),
    ("a.json", "bioc", json.dumps(BIOC, indent=1)[:-5], "line [0-9]+: not JSON.*; correct the file, or fetch"),
    *(("a.xml", "bioc", content, words) for content, words in (
        (BIOC_XML.replace("</sentence></passage>", "</passage>"), "line 12: not XML"),
        *((BIOC_XML.replace('"BioC.dtd"', f'"BioC.dtd" [{one}]'), "line 2: the XML declares .* an entity that is long")
          for one in (EXTERNAL, NESTED)),
        (f"<collection>{DEEP_XML}</collection>", "too deep"),
        (BIOC_XML.replace("<offset>0<", "<offset>x<"), "'12': a passage or sentence has the offset 'x'"),
    )),
    *(("kb.csv", "csv", content, words) for content, words in (
        ('id,name\nD1,"flu"x\n',
         r"line 2: the quotes of a cell do not match \(.*\); write each quote inside a cell twice"),
        ('id,name\nD1,flu\nD2,"cold\n', "line 3: the quotes of a cell do not match"),
        ("id,name,name\n", "line 1: two columns are named 'name'; rename one"),
        ('# x\nid,name\nD1,"flu\nD2,cold\nD3,x"\n', "line 3: the column 'name' has cells of a whole row in one cell"),
        ('"' + "x" * 200_000 + '",name\n', "line 1: no column is id or document_id"),
        ("name,aliases\nflu,\n",
         "line 1: no column is id or document_id; the columns are 'name, aliases'; rename one, or read"),
    )),
    *(("kb.tsv", "tsv", f"{names}\nD1\tflu\n", "line 1: no column is id or document_id; the columns are") for names in (
        "code\tlabel", "CUI\tSTR", "concept_id\tpreferred term", "MeshID\tMeshName"
    )),
    ("kb.json", "obographs", '{"graphs": [{"nodes": [], "edges": 5}]}', "no entities in the format obographs"),
    *(("kb.json", "obographs", content, "the file has no list `graphs`|not JSON|too deeply") for content in (
        "{}", '{"graphs": {}}', '{"graphs": [5]}', '{"graphs": [{}]}', "[1]", '{"graphs": [', "[" * 99_999
    )),
]  # fmt: skip


@pytest.mark.parametrize(("file", "name", "content", "words"), MALFORMED, ids=map(str, range(len(MALFORMED))))
def test_a_malformed_or_hostile_file_is_refused(tmp_path: Path, file: str, name: str, content: str, words: str) -> None:
    path = tmp_path / file
    if name == "ecbplus":
        path = ecbplus(tmp_path, WORDS)
    (tmp_path / file).write_text(content)
    kind = "entities" if file.startswith("kb") else "documents"
    with pytest.raises(DataError, match=rf"^{tmp_path / file}.*({words})"):
        read(kind, path, name)
    if kind == "entities" and name != "csv":  # nor is it skipped
        with pytest.raises(DataError, match=words):
            read(kind, path, name, **OPTIONS)


@pytest.mark.parametrize("name", ["jsonl", "pubtator"])
def test_a_large_document_is_read_and_written(tmp_path: Path, name: str) -> None:
    spans = [(i, i + 5) for i in range(0, 60_000, 6)]
    text = "grand " * 200_000
    lines = [f"1|t|{text}", "1|a|", *(f"1\t{start}\t{end}\tgrand\tX\tD1" for start, end in spans)]
    document = json.dumps({"id": "d", "text": text, "mentions": [{"spans": [span]} for span in spans]})
    corpus = read_documents(save_lines(tmp_path / "docs.txt", *(lines if name == "pubtator" else [document])), name)
    assert (len(corpus.mentions), len(corpus[0].text)) == (10_000, len(text) + (name == "pubtator"))
    arbo.Corpus.of(corpus).to_jsonl(tmp_path / "again.jsonl.gz")
    assert read_documents(tmp_path / "again.jsonl.gz") == corpus


CSV = 'PMID,Title,Abstract,year\n123,Marsh fever in birds.,"AIM: To count - by night and day.",1990\n124,Other.,,\n'


def test_titles_abstracts_and_chapters_are_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    texts = {"123": "Marsh fever in birds.\nAIM: To count - by night and day.", "124": "Other."}
    assert {one.id: one.text for one in read_documents(tmp_path / "a.csv")} == texts
    (tmp_path / "a.nbib").write_text("PMID- 1\nTI  - One\nPMID- 2\nTI  - Two\n")
    assert [(one.id, one.text) for one in read_documents(tmp_path / "a.nbib")] == [("1", "One"), ("2", "Two")]
    chapter = "<PMID>7</PMID><ArticleTitle>Marsh</ArticleTitle><Abstract><AbstractText>Fen.</AbstractText></Abstract>"
    book = f"<PubmedBookArticle><BookDocument>{chapter}</BookDocument></PubmedBookArticle></PubmedArticleSet>"
    (tmp_path / "a.xml").write_text(PUBMED_XML.replace("</PubmedArticleSet>", book))
    assert [(one.id, one.text) for one in read_documents(tmp_path / "a.xml")][-1] == ("7", "Marsh\nFen.")


@pytest.mark.parametrize(
    ("cells", "aliases", "note"),
    [
        (["ague; swamp fever", "petrel;", ""], [("ague", "swamp fever"), ("petrel",), ()], "divided at `;`"),
        (["ague; swamp fever", "petrel", ""], [("ague; swamp fever",), ("petrel",), ()], "taken as one name"),
        (["ague; swamp fever", "petrel|x;", ""], [("ague; swamp fever",), ("petrel", "x;"), ()], ""),
    ],
)
@pytest.mark.parametrize("quote", ["", 'a"b'])  # which is read by rows
def test_synonyms_are_divided_by_column(cells: Any, aliases: Any, note: str, quote: str, tmp_path: Path) -> None:
    rows = "".join(f"E{at},{at} {quote},{cell}\n" for at, cell in enumerate(cells))
    (tmp_path / "kb.csv").write_text(f"id,name,synonyms\n{rows}")
    kb = read_knowledge_base(tmp_path / "kb.csv")
    assert [one.aliases for one in kb] == aliases
    assert note in "".join(kb.notes)


def test_files_of_arbo_keep_names_with_semicolons(tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "one", ("a;b",)), arbo.Entity("E2", "two", ("c;d",))])
    for name in ("kb.tsv", "kb.parquet"):
        save_kb(kb, tmp_path / name)
        assert [*read_knowledge_base(tmp_path / name)] == [*kb]


def test_owl_says_how_to_convert_it(tmp_path: Path) -> None:
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    owl = f'<rdf:RDF xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:rdf="{rdf}"><owl:Class rdf:about="x"/></rdf:RDF>'
    ofn, xml = "Prefix(:=<x>)\nOntology(<x>\n)", '<Ontology xmlns="http://x/owl#">'
    for name, content in (("a b.ofn", ofn), ("c.owl", xml), ("c.owl", f'<?xml version="1.0"?>\n{owl}')):
        (tmp_path / name).write_text(content)
        with pytest.raises(arbo.DataError, match="an ontology in OWL; convert it to OBO, as by robot convert"):
            read_knowledge_base(tmp_path / name)
