"""The default configuration on real corpora: NCBI disease and the diseases of BC5CDR against MEDIC."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import arbo
from arbo.linking.description import describe
from arbo.retrieval.retrieval import Retrieval
from clustering import METHODS, Method, partition

pytestmark = pytest.mark.slow

Shared = Callable[[str], Path]


class Searched(NamedTuple):
    corpus: arbo.Corpus
    linker: arbo.Linker
    retrieval: Retrieval

    def link(self, config: arbo.LinkerConfig) -> arbo.Result:
        """Decide as `Linker.link` does, without searching again."""
        clusters = partition(self.retrieval.graph(config.k), config.method, config.limits(self.retrieval.threshold))
        return describe(self.linker.kb, self.retrieval, clusters, config)


@pytest.fixture(scope="session")
def linker(shared: Shared) -> arbo.Linker:
    return arbo.Linker(arbo.read_knowledge_base(shared("data/medic/medic_06Jul2012.txt")))


def search(linker: arbo.Linker, corpus: arbo.Corpus) -> Searched:
    return Searched(corpus, linker, linker.retrieve(corpus, k=4, in_order=True))


@pytest.fixture(scope="session")
def ncbi(linker: arbo.Linker, shared: Shared) -> Searched:
    return search(linker, arbo.read_documents(shared("data/ncbi_disease/NCBItestset_corpus.txt")))


@pytest.fixture(scope="session")
def bc5cdr(linker: arbo.Linker, shared: Shared) -> Searched:
    file = shared("data/bc5cdr/CDR_TestSet.PubTator.txt")
    return search(linker, arbo.read_documents(file, "pubtator", types="Disease"))


def accuracy(result: arbo.Result) -> float:
    linking = result.evaluate().linking
    return linking.accuracy


@pytest.mark.parametrize(("name", "mentions", "least"), [("ncbi", 960, 0.74), ("bc5cdr", 4424, 0.77)])
def test_the_default(request: pytest.FixtureRequest, name: str, mentions: int, least: float) -> None:
    searched = request.getfixturevalue(name)
    assert len(searched.corpus.mentions) == mentions
    evaluation = searched.link(arbo.LinkerConfig()).evaluate()
    assert evaluation.linking.accuracy >= least
    if name == "ncbi":
        assert evaluation.linking.mentions == mentions
        assert evaluation.linking.recall[16] >= 0.85
    else:
        assert evaluation.nil.gold > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 4])
def test_every_method_stays_within_bounds(ncbi: Searched, bc5cdr: Searched, method: Method, k: int) -> None:
    unlimited = arbo.LinkerConfig(method=method, k=k, entity_threshold=None, mention_threshold=None)
    for searched in (ncbi, bc5cdr):
        result = searched.link(unlimited)
        assert 0.7 < accuracy(result) < 0.9
        assert all(link.entity is not None for link in result.links)
        coreference = result.evaluate().coreference
        assert 0.7 < coreference["b3"]["f1"] < 0.95


def test_the_whole_job_is_these_parts(ncbi: Searched, tmp_path: Path) -> None:
    result = ncbi.linker.link(ncbi.corpus)
    in_parts = ncbi.link(arbo.LinkerConfig(entity_threshold=result.manifest["threshold"]["entity"]))
    assert result.link_table.drop_columns(["confidence"]) == in_parts.link_table
    assert result.cluster_table == in_parts.cluster_table
    result.save(tmp_path / "run")
    again = arbo.Result.load(tmp_path / "run")
    assert again.link_table == result.link_table
    assert accuracy(again) == accuracy(result)


def test_abbreviations_are_written_out(ncbi: Searched) -> None:
    result = ncbi.link(arbo.LinkerConfig())
    expanded = [link for link in result.links if link.expansion is not None]
    assert len(expanded) > 100
    assert all(link.expansion != link.mention.text for link in expanded)
    as_written = ncbi.linker.configured(config=arbo.LinkerConfig(expand_abbreviations=False)).link(ncbi.corpus)
    assert accuracy(result) > accuracy(as_written) + 0.05


def test_discovery_without_the_knowledge_base(bc5cdr: Searched) -> None:
    evaluation = arbo.Linker().discover(bc5cdr.corpus).evaluate()
    assert evaluation.linking is None
    assert evaluation.clustering["ari"] > 0.6
