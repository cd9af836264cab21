"""Thousands of made-up requests to every operation, by two tenants in turn, and a judge of each
answer."""

import copy
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from proof.crawl.bodies import marked, valid
from proof.crawl.household import Household, as_cursor
from proof.crawl.roles import Key, fault
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gnomon.access.principal import Role
from gnomon.clock import SystemClock, new_id

Case: TypeAlias = schemathesis.Case[Any]

RESTOCK_EVERY = 40  # cases
_SHARED_KEYS = [f"shared-{n}" for n in range(8)]
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
_TIMEOUT = 30.0
_PUBLIC = "webhook-keys"  # what tenants show to everybody
# Most with all rights, or little would ever be found behind the door.
_KINDS = (
    *("admin",) * 12,
    *("submit", "read", "operate", "work") * 2,
    *("limited", "limited", "expired", "revoked", "unknown", "malformed", "none", "operator"),
)
# The same for what operators are asked to do.
_OPERATORS = (*("operator" if kind == "admin" else kind for kind in _KINDS), "admin", "admin")
_PLAIN = re.compile(r"(?!\.{1,2}$)[\w.~-]+", re.ASCII)
# Parameters that name something of a tenant.
_NAMING = {"cursor", "cron_job_id", "fingerprint", "queue", "tag", "task_type"}
_FRESH = 7  # things of a kind that one restocking brings, at the most


class Findings:
    """What was asked, what was answered, and what was wrong with it."""

    def __init__(self) -> None:
        self.answers: dict[str, Counter[int]] = defaultdict(Counter)
        self.keys: dict[str, Counter[int]] = defaultdict(Counter)
        self.wrong: list[str] = []

    @property
    def cases(self) -> int:
        return sum(counts.total() for counts in self.answers.values())

    def add(self, other: "Findings") -> None:
        for label, answers in other.answers.items():
            self.answers[label] += answers
        for kind, answers in other.keys.items():
            self.keys[kind] += answers
        self.wrong += other.wrong

    def blame(self, what: str, request: str, answer: requests.Response | None = None) -> None:
        shown = "" if answer is None else f"\n  -> {answer.status_code} {answer.text[:500]}"
        self.wrong.append(f"{what}\n  {request[:700]}{shown}")


def document_of(url: str) -> Any:
    return requests.get(f"{url}/api/v1/openapi.json", timeout=_TIMEOUT).json()


def operations_of(document: Any) -> list[Any]:
    document = copy.deepcopy(document)
    for path in document["paths"].values():
        for method, operation in list(path.items()):
            operation.pop("security", None)  # who asks is chosen here
            if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
                del path[method]  # it has no end: tests of streams ask for other tenants' events
    schema = schemathesis.openapi.from_dict(document)
    found = list(schema.get_all_operations())
    assert all(isinstance(each, Ok) for each in found), found
    return [each.ok() for each in found if isinstance(each, Ok)]


def resource(path: str) -> str:
    """The kind of thing that a path is about."""
    parts = path.replace("/installation/", "/").split("/")
    return parts[3] if len(parts) > 3 else ""


class Crawler:
    """Two tenants who ask, and a third whose things they may come upon."""

    def __init__(
        self,
        url: str,
        askers: Sequence[Household],
        bystander: Household,
        findings: Findings,
        roles: Mapping[str, Role | None],
        number: int,
    ) -> None:
        self._url = url
        self._roles = roles
        self._askers = askers
        self._bystander = bystander
        self._findings = findings
        self._session = requests.Session()
        self._dice = random.Random(number)
        self._turns = 0

    def crawl(self, operation: Any, cases: int, said: Callable[[], None]) -> None:
        """Ask that operation so many times; calls `said` after each of them."""

        @seed(self._dice.getrandbits(32))
        @settings(
            max_examples=cases,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=_cases(operation), different=st.integers(0, 2**32))
        def ask(case: Case, different: int) -> None:
            self._ask(case, self._dice)
            said()

        ask()

    def _ask(self, case: Case, dice: random.Random) -> None:
        if self._turns % RESTOCK_EVERY == 0:
            for each in self._askers:
                each.restock()
        asker = self._askers[self._turns % len(self._askers)]
        self._turns += 1
        for_operators = self._roles[case.operation.label] is Role.OPERATOR
        key = asker.keys[dice.choice(_OPERATORS if for_operators else _KINDS)]
        self._aim(case, asker, key, dice)
        headers = {} if key.secret is None else {"Authorization": f"Bearer {key.secret}"}
        answer = case.call(
            base_url=self._url, session=self._session, headers=headers, timeout=_TIMEOUT
        )
        self._judge(case, asker, key, answer)
        self._judge_role(case, key, answer)

    def _aim(self, case: Case, asker: Household, key: Key, dice: random.Random) -> None:
        """Let most requests be about things that exist, of one's own or of others, and many of
        them right."""
        kind = resource(case.operation.path)
        others = [each for each in (*self._askers, self._bystander) if each is not asker]
        if case.method == "PUT":  # would make something of one's own under another's name
            others = []
        for name in case.path_parameters or {}:
            owner = dice.choice([asker, asker, asker, *others, None])
            if owner is not None:
                stock = owner.stock[kind]  # of which the last is most likely still there
                case.path_parameters[name] = dice.choice(
                    stock[-_FRESH:] if dice.random() < 0.8 else stock
                )
            elif dice.random() < 0.5:
                case.path_parameters[name] = str(new_id(SystemClock().now()))
        if kind == "worker-sessions":
            self._prove(case, asker, dice)
        if case.query and dice.random() < 0.6:
            case.query = dict(dice.sample(sorted(case.query.items()), min(2, len(case.query))))
        for name in sorted(_NAMING & set(case.query or {})):
            case.query[name] = _somebodys(name, dice.choice([asker, asker, *others]), dice)
        if _is_wait((case.query or {}).get("wait")):
            case.query["wait"] = dice.choice(["0", "0.01", "0.1"])  # a crawl has no time to wait
        if "Idempotency-Key" in (case.headers or {}) and dice.random() < 0.5:
            case.headers["Idempotency-Key"] = dice.choice(_SHARED_KEYS)
        if isinstance(case.body, dict) and dice.random() < 0.7:
            path = case.operation.path
            case.body = (
                valid(case.body, path, dice)
                if key.of_operator
                else marked(case.body, path, asker, dice)
            )

    def _prove(self, case: Case, asker: Household, dice: random.Random) -> None:
        """Know the secret of a session, mostly; and never wait for an answer."""
        owners = (asker, asker, asker, *self._askers, self._bystander)
        secrets = dice.choice(owners).session_secrets
        known = secrets.get(str((case.path_parameters or {}).get("session_id")))
        if known is not None or secrets:
            case.headers["gnomon-session-secret"] = known or next(reversed(secrets.values()))
        if isinstance(case.body, dict) and "wait_seconds" in case.body:
            case.body["wait_seconds"] = dice.choice([0, 0.01])

    def _judge(self, case: Case, asker: Household, key: Key, answer: Any) -> None:
        found = self._findings
        sent = answer.request
        asked = f"{sent.method} {sent.url} {_text(sent.body)}"
        whole = f"{answer.text} {dict(answer.headers)}"
        found.answers[case.operation.label][answer.status_code] += 1
        others = [
            each
            for each in (*self._askers, self._bystander)
            if each is not asker or key.of_operator
        ]
        for other in [] if resource(case.operation.path) == _PUBLIC else others:
            if leaked := other.found_in(whole, asked, by_operator=key.of_operator):
                found.blame(f"shows {sorted(leaked)[:3]} of {other.tenant_id}", asked, answer)
        if not key.of_operator:
            asker.owns(answer.text, asked)
        if answer.status_code in (429, 503):
            found.blame("refused, though nobody gave reason to", asked, answer)
        try:
            case.validate_response(answer, checks=_CHECKS)
        except FailureGroup as failures:
            for failure in failures.exceptions:
                found.blame(f"{type(failure).__name__}: {failure}", asked, answer)

    def _judge_role(self, case: Case, key: Key, answer: Any) -> None:
        self._findings.keys[key.kind][answer.status_code] += 1
        role = self._roles[case.operation.label]
        if wrong := fault(key, role, answer.status_code, answer.text, plain=_plain(case)):
            asked = f"with {key.kind}: {answer.request.method} {answer.request.url}"
            self._findings.blame(wrong, asked, answer)


def _plain(case: Case) -> bool:
    """Whether the path leads to this operation, whatever clients and proxies make of it."""
    return all(_PLAIN.fullmatch(str(value)) for value in (case.path_parameters or {}).values())


def _cases(operation: Any) -> Any:
    """As the document says, and as it does not."""
    modes = [operation.as_strategy(GenerationMode.POSITIVE)]
    if operation.body or any(True for _ in operation.iter_parameters()):
        modes.append(operation.as_strategy(GenerationMode.NEGATIVE))
    return st.one_of(*modes)


def _somebodys(name: str, owner: Household, dice: random.Random) -> str:
    if name in ("cursor", "cron_job_id"):
        chosen = dice.choice(owner.stock["cron-jobs" if name == "cron_job_id" else "tasks"])
        return as_cursor(chosen) if name == "cursor" and len(chosen) == 36 else chosen
    if name == "fingerprint":
        return owner.stock["dead-letter-groups"][0]
    return owner.mark


def _is_wait(value: Any) -> bool:
    try:
        return 0 <= float(value) <= 30
    except (TypeError, ValueError):
        return False


def _text(body: Any) -> str:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")


def shares(operations: Sequence[Any], cases: int) -> Iterator[tuple[Any, int]]:
    """Each operation, with how often it is asked."""
    each, rest = divmod(cases, len(operations))
    for index, operation in enumerate(operations):
        yield operation, each + (index < rest)
