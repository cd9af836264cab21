"""The pages hang together: each is in the index once, links lead somewhere, the README is short."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.api.http.answers.problems import TITLES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted((*DOCS.rglob("*.md"), *ROOT.glob("*.md")))
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"(?ms)^ *```.*?^ *```$|`[^`\n]*`", "", page.read_text())


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to, each with the heading."""
    for link in _LINK.findall(prose(page)):
        if not re.match(r"\w+:", link):
            path, _, heading = link.partition("#")
            yield (page.parent / path).resolve() if path else page, heading


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub names them."""
    titles = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, heading in links(page):
        assert target.exists(), target
        assert not heading or heading in headings(target), f"{target}#{heading}"


def test_the_index_lists_every_page_once() -> None:
    index = DOCS / "README.md"
    rows = re.findall(r"(?m)^- \[[^\]]+\]\(([^)]+)\)", index.read_text())
    listed = Counter((DOCS / row).resolve() for row in rows)
    folders = {DOCS / "decisions", DOCS / "runbooks"}  # which have an index of their own, or none
    pages = {page for page in DOCS.rglob("*.md") if page != index and page.parent not in folders}
    assert listed == Counter({*pages, *folders, ROOT / "CONTRIBUTING.md"})


def test_the_front_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 600


def test_the_api_reference_lists_every_problem() -> None:
    page = (DOCS / "reference" / "api.md").read_text()
    told = {
        (int(status), slug) for status, slug in re.findall(r"(?m)^\| (\d+) \| `([\w-]+)`", page)
    }
    assert told >= {(status, slug) for status, (slug, _) in TITLES.items()}


def test_troubleshooting_quotes_what_gnomon_says() -> None:
    """`…` and numbers stand for values; a string may be written over several lines."""
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    said = re.sub(r'"\s*\n\s*f?"', "", sources)
    page = (DOCS / "how-to" / "troubleshooting.md").read_text()
    explained = page.partition("| `tasks explain` says |")[2].partition("\n## ")[0]
    quotes = re.findall(r"(?m)^\| (\w[^|]+|…[^|]+) \|", explained)
    quotes += re.findall(r"(?m)^\| `([^`]+)` \|", page)
    assert len(quotes) > 10
    for quote in quotes:
        for part in re.split(r"…|\b\d+\b|\bN\b", quote):
            assert part.strip(" ,") in said, quote
