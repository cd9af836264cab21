"""An API that asks who one is, with three tenants behind it; and the whole crawl."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from proof.crawl.alike import Stranger
from proof.crawl.crawler import (
    Crawler,
    Findings,
    document_of,
    operations_of,
    shares,
)
from proof.crawl.household import Household
from proof.crawl.pages import PageCrawler
from proof.crawl.roles import roles_of


class Report:
    """What the crawl found."""

    def __init__(self, findings: Findings, compared: int, operations: int, visits: int) -> None:
        self.findings = findings
        self.compared = compared
        self.operations = operations
        self.visits = visits

    @property
    def holds(self) -> bool:
        return not self.findings.wrong

    def lines(self, most: int = 20) -> Iterator[str]:
        found = self.findings
        yield (
            f"{'HOLDS' if self.holds else 'FAILS'}: {found.cases} cases of {self.operations} "
            f"operations, {self.compared} foreign ids compared with unknown ones, "
            f"{self.visits} visits of pages"
        )
        for label, counts in sorted(found.answers.items()):
            answers = ", ".join(f"{status}: {n}" for status, n in sorted(counts.items()))
            yield f"  {label:50} {counts.total():6}   {answers}"
        for kind, counts in sorted(found.keys.items()):
            answers = ", ".join(f"{status}: {n}" for status, n in sorted(counts.items()))
            yield f"  with key {kind:41} {counts.total():6}   {answers}"
        yield f"  wrong: {len(found.wrong)}"
        yield from (f"- {each}" for each in found.wrong[:most])


def summed(reports: Sequence[Report]) -> Report:
    """Several crawls as one."""
    findings = Findings()
    for report in reports:
        findings.add(report.findings)
    compared, visits = (sum(r.compared for r in reports), sum(r.visits for r in reports))
    return Report(findings, compared, reports[0].operations, visits)


def crawled(
    url: str, dsn: str, cases: int, seed: int, said: Callable[[int], None] = lambda _: None
) -> Report:
    """Crawl an API that has no tenants yet but `default`."""
    findings = Findings()
    document = document_of(url)
    operations = operations_of(document)
    with _households(url, dsn) as (alpha, beta, bystander):
        before = bystander.rows()
        stranger = Stranger(url, alpha, bystander, findings)
        compared = sum(stranger.compare(operation) for operation in operations)
        alpha.restock()
        pages = PageCrawler(url, alpha, bystander, findings)
        pages.crawl()
        crawler = Crawler(url, (alpha, beta), bystander, findings, roles_of(document), seed)
        for operation, share in shares(operations, cases):
            crawler.crawl(operation, share, lambda: said(findings.cases))
        _unchanged(before, bystander.rows(), findings)
    return Report(findings, compared, len(operations), pages.visits)


@contextmanager
def _households(url: str, dsn: str) -> Iterator[Sequence[Household]]:
    database: psycopg.Connection[Any]
    with psycopg.connect(dsn, autocommit=True) as database:
        made = [Household(name, url, database) for name in ("alpha", "beta", "bystander")]
        made[2].restock()
        yield made


def _unchanged(before: dict[str, str], after: dict[str, str], findings: Findings) -> None:
    """Nobody asked anything with the bystander's keys."""
    for table, rows in after.items():
        if before[table] != rows:
            findings.blame(f"changes {table} of a tenant that asked for nothing", rows)
