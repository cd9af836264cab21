"""Whether the answer to a foreign id tells that there is such a thing."""

import re
from typing import Any

import requests
from hypothesis import HealthCheck, Phase, given, seed, settings
from proof.crawl.crawler import Case, Findings, resource
from proof.crawl.household import Household
from schemathesis import GenerationMode

from gnomon.clock import SystemClock, new_id

_MADE = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"  # an id
    r"|\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?"  # a time
)
_UUID_LENGTH = 36
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


class Stranger:
    """Asks for what is another's, and for what nobody has."""

    def __init__(self, url: str, asker: Household, owner: Household, findings: Findings) -> None:
        self._url = url
        self._key = f"Bearer {asker.keys['admin'].secret}"
        self._owner = owner
        self._findings = findings
        self._session = requests.Session()
        self._compared = 0

    def compare(self, operation: Any) -> int:
        """Every id of the owner that the operation could be about; gives how many comparisons."""
        self._compared = 0
        names = [p.name for p in operation.path_parameters]
        if not names:
            return 0

        @seed(1)
        @settings(
            max_examples=1,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(GenerationMode.POSITIVE))
        def ask(case: Case) -> None:
            for foreign in self._owner.stock[resource(operation.path)]:
                self._compare(case, names[0], foreign)

        ask()
        return self._compared

    def _compare(self, case: Case, name: str, foreign: str) -> None:
        unknown = nobodys(foreign)
        case.headers.pop("Idempotency-Key", None)
        theirs = self._answer(case, name, foreign)
        no_ones = self._answer(case, name, unknown)
        self._compared += 1
        if case.method == "PUT":  # made something of one's own under that name
            for answer in (theirs, no_ones):
                self._session.delete(answer.request.url, headers={"Authorization": self._key})
        if masked(theirs, foreign) != masked(no_ones, unknown):
            self._findings.blame(
                f"{case.operation.label}: a foreign id answers unlike an unknown one",
                f"unknown: {masked(no_ones, unknown)}\n  foreign: {masked(theirs, foreign)}",
            )

    def _answer(self, case: Case, name: str, value: str) -> Any:
        case.path_parameters[name] = value
        headers = {"Authorization": self._key}
        return case.call(base_url=self._url, headers=headers, session=self._session)


def nobodys(foreign: str) -> str:
    """What is like it, of the same length, and unknown."""
    if len(foreign) == _UUID_LENGTH and foreign.count("-") == 4:
        return str(new_id(SystemClock().now()))
    if _FINGERPRINT.fullmatch(foreign):
        return foreign[:-1] + ("0" if foreign[-1] != "0" else "1")
    return foreign[:-1] + ("x" if foreign[-1] != "x" else "y")


def masked(answer: "requests.Response", name: str) -> tuple[Any, ...]:
    """Status, headers and body, without what is new in every answer."""
    headers = {k.lower(): v for k, v in answer.headers.items()}
    headers.pop("date", None)
    headers.pop("connection", None)  # closed where a refusal came before the body of the request
    headers.pop("x-request-id", None)
    shown = {k: (v if isinstance(v, str) else ", ".join(v)) for k, v in headers.items()}
    return answer.status_code, shown, _MADE.sub("*", answer.text.replace(name, "NAME"))
