"""The default configuration on real corpora: NCBI disease and the diseases of BC5CDR against MEDIC."""

from collections.abc import Callable
from pathlib import Path

import pytest

import arbo

pytestmark = pytest.mark.slow

Shared = Callable[[str], Path]


@pytest.fixture(scope="module")
def medic(shared: Shared) -> arbo.Linker:
    return arbo.Linker(arbo.read_knowledge_base(shared("data/medic/medic_06Jul2012.txt")))


def test_ncbi_disease(medic: arbo.Linker, shared: Shared) -> None:
    corpus = arbo.read_documents(shared("data/ncbi_disease/NCBItestset_corpus.txt"))
    result = medic.link(corpus)
    linking = result.evaluate().linking
    assert linking.mentions == len(corpus.mentions) == 960
    assert linking.accuracy >= 0.74
    assert linking.recall[16] >= 0.85
    expanded = [link for link in result.links if link.expansion is not None]
    assert len(expanded) > 100
    assert all(link.expansion != link.mention.text for link in expanded)
    as_written = medic.configured(config=arbo.LinkerConfig(expand_abbreviations=False)).link(corpus)
    assert linking.accuracy > as_written.evaluate().linking.accuracy + 0.05


def test_bc5cdr(medic: arbo.Linker, shared: Shared) -> None:
    corpus = arbo.read_documents(shared("data/bc5cdr/CDR_TestSet.PubTator.txt"), "pubtator", types="Disease")
    assert len(corpus.mentions) == 4424
    evaluation = medic.link(corpus).evaluate()
    assert evaluation.linking.accuracy >= 0.77
    assert evaluation.nil.gold > 0
    assert 0.7 < evaluation.coreference["b3"]["f1"] < 0.95
    discovered = arbo.Linker().discover(corpus).evaluate()
    assert discovered.linking is None
    assert discovered.clustering["ari"] > 0.6
