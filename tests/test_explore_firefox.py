"""The main views of the page in Firefox, as a file and served."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page
from builders import linker
from conftest import Sample
from firefox import Firefox, needs_firefox

import arbo
from arbo.explore.report import report

pytestmark = pytest.mark.slow


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.run(f"[...document.querySelectorAll({selector!r})].map(one => one.textContent)")
    return found


@pytest.fixture(scope="module")
def result(sample: Sample) -> arbo.Result:
    """Link the sample by a threshold that leaves many mentions NIL."""
    documents, kb = sample
    return linker(kb, entity_threshold=0.35).link(documents)


@pytest.fixture
def firefox() -> Iterator[Firefox]:
    needs_firefox()
    with Firefox() as found:
        yield found


def test_the_main_views_of_the_file_and_of_the_served_page(
    firefox: Firefox, result: arbo.Result, tmp_path: Path
) -> None:
    report(result, tmp_path / "run.html", name="sample")
    firefox.look()
    firefox.open(tmp_path / "run.html")
    assert texts(firefox, ".tile strong") == ["442", "142", "118", str(len(result.discovered))]
    assert firefox.run("document.querySelectorAll('.scores tbody tr').length") > 2
    cluster = result.discovered[0]
    firefox.go(f"#/cluster/{cluster.id}")
    assert len(texts(firefox, "[role=tree] a")) == len(cluster.mentions)
    firefox.go("#/mention/D06-3")
    assert "sorrel root rot" in firefox.text("h1")
    assert len(texts(firefox, ".path li")) > 1
    firefox.go("#/document/D06/D06-3")
    assert texts(firefox, ".chosen") == ["sorrel root rot"]
    assert firefox.run("document.querySelector('.text').textContent") == result.text_of("D06")
    for address, words in (("#/nil/nearness", "New entities"), ("#/search/fenn", "Fenn Water"), ("#/mentions", "584")):
        firefox.go(address)
        firefox.until(f"document.querySelector('main').innerText.includes('{words}')")
    firefox.go("#/mentions")
    firefox.until("document.querySelectorAll('.item a').length > 5")
    firefox.go("#/threshold")
    before = texts(firefox, ".cut .tile strong")
    firefox.run(
        "(() => { const one = document.querySelector('#cut-entity'); one.value = 0; "
        "one.dispatchEvent(new Event('input')); })()"
    )
    firefox.until(f"document.querySelector('.cut .tile strong').textContent !== '{before[0]}'")
    assert firefox.run("performance.getEntriesByType('resource').length") == 0
    pytest.importorskip("uvicorn")
    from test_explore_served_browser import served

    result.save(tmp_path / "run")
    with served(tmp_path / "run") as address:
        firefox.navigate(address)
        firefox.until("document.querySelector('#main[data-ready]') !== null")
        assert texts(firefox, ".tile strong")[0] == "442"
        firefox.go("#/review")
        firefox.until("document.querySelector('.review h1') !== null")
        assert firefox.run("location.href.includes('token')") is False
