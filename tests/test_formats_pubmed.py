"""What curators have: abstracts from PubMed, tables of them, columns of synonyms, and ontologies in OWL."""

from pathlib import Path

import pytest
from format_files import PUBMED_XML

import arbo
from arbo.formats import read_documents, read_knowledge_base
from arbo.kb.saving import save

CSV = 'PMID,Title,Abstract,year\n123,Marsh fever in birds.,"AIM: To count - by night and day.",1990\n124,Other.,,\n'


def test_titles_and_abstracts_of_a_table_are_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    documents = read_documents(tmp_path / "a.csv")
    assert [(one.id, one.text) for one in documents] == [
        ("123", "Marsh fever in birds.\nAIM: To count - by night and day."),
        ("124", "Other."),
    ]


def test_articles_follow_one_another_without_a_blank_line_and_chapters_are_articles(tmp_path: Path) -> None:
    (tmp_path / "a.nbib").write_text("PMID- 1\nTI  - One\nPMID- 2\nTI  - Two\n")
    assert [(one.id, one.text) for one in read_documents(tmp_path / "a.nbib")] == [("1", "One"), ("2", "Two")]
    chapter = "<PMID>7</PMID><ArticleTitle>Marsh</ArticleTitle><Abstract><AbstractText>Fen.</AbstractText></Abstract>"
    book = f"<PubmedBookArticle><BookDocument>{chapter}</BookDocument></PubmedBookArticle></PubmedArticleSet>"
    (tmp_path / "a.xml").write_text(PUBMED_XML.replace("</PubmedArticleSet>", book))
    assert [(one.id, one.text) for one in read_documents(tmp_path / "a.xml")][-1] == ("7", "Marsh\nFen.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("TI  - No id.\n\nPMID- 1\nTI  - x\n", "line 1: an article has no PMID"),
        (PUBMED_XML.replace("</PubmedArticleSet>", ""), "not XML"),
        (PUBMED_XML.replace("<PMID>124</PMID>", ""), "an article has no PMID"),
    ],
)
def test_a_broken_file_is_told_with_its_place(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(arbo.DataError, match=message):
        read_documents(tmp_path / "a.xml", "pubmed")


@pytest.mark.parametrize(
    ("cells", "aliases", "note"),
    [
        (["ague; swamp fever", "petrel;", ""], [("ague", "swamp fever"), ("petrel",), ()], "divided at `;`"),
        (["ague; swamp fever", "petrel", ""], [("ague; swamp fever",), ("petrel",), ()], "each of which is one name"),
        (["ague; swamp fever", "petrel|x;", ""], [("ague; swamp fever",), ("petrel", "x;"), ()], ""),
    ],
)
@pytest.mark.parametrize("quote", ["", 'a"b'])  # which is read by rows
def test_synonyms_are_divided_as_their_column_is(
    cells: list[str], aliases: list[tuple[str, ...]], note: str, quote: str, tmp_path: Path
) -> None:
    rows = "".join(f"E{at},{at} {quote},{cell}\n" for at, cell in enumerate(cells))
    (tmp_path / "kb.csv").write_text(f"id,name,synonyms\n{rows}")
    kb = read_knowledge_base(tmp_path / "kb.csv")
    assert [one.aliases for one in kb] == aliases
    assert note in "".join(kb.notes)


def test_files_of_arbo_keep_names_with_semicolons(tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "one", ("a;b",)), arbo.Entity("E2", "two", ("c;d",))])
    for name in ("kb.tsv", "kb.parquet"):
        save(kb, tmp_path / name)
        assert [*read_knowledge_base(tmp_path / name)] == [*kb]


def test_owl_says_how_to_convert_it(tmp_path: Path) -> None:
    for name, content in (("a b.ofn", "Prefix(:=<x>)\nOntology(<x>\n)"), ("c.owl", '<Ontology xmlns="http://x/owl#">')):
        (tmp_path / name).write_text(content)
        with pytest.raises(arbo.DataError, match=r"robot convert -i '?.*(a b.ofn' -o 'a b.obo'|c.owl -o c.obo)$"):
            read_knowledge_base(tmp_path / name)
    (tmp_path / "do.owl").write_text(
        '<?xml version="1.0"?>\n<rdf:RDF xmlns:owl="http://www.w3.org/2002/07/owl#" '
        'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n<owl:Class rdf:about="http://x/DOID_1"/></rdf:RDF>'
    )
    with pytest.raises(arbo.DataError, match=r"convert it: robot convert -i .*do\.owl -o do\.obo"):
        read_knowledge_base(tmp_path / "do.owl")
