"""The dashboard, seen by two tenants: every page and action, by keys of every role."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from proof.crawl.alike import masked, nobodys
from proof.crawl.crawler import Findings
from proof.crawl.household import Household
from proof.crawl.roles import Key
from tests.dashboard.page_routes import ACTIONS, PARAMETER, ROUTES

from gnomon.access.principal import Role

# The resource of the API that the pages below a path are about.
RESOURCES = {
    "bulk-operations": "bulk-operations",
    "cron": "cron-jobs",
    "dead-letters": "dead-letters",
    "dead-letters/groups": "dead-letter-groups",
    "events": "events",
    "installation/events": "events",
    "keys": "keys",
    "limits": "limiters",
    "operator-keys": "operator-keys",
    "operator-subscriptions": "operator-subscriptions",
    "subscriptions": "subscriptions",
    "task-types": "task-types",
    "tasks": "tasks",
    "tenants": "tenants",
    "webhook-secrets": "webhook-secrets",
    "batches": "batches",
    "workflow-runs": "workflow-runs",
    "workflows": "workflows",
}
_ONCE = re.compile(r"\b[0-9a-f]{32}\b")
_TIMEOUT = 30.0
_FORM: Mapping[str, str] = {"reason": "x", "note": "x", "execute_at": "2190-01-01T00:00"}


_STREAMS = ("/live", "/live/installation")  # they do not end
# What names a thing without being its page: in an address, or in the fields of a form.
_QUERIES = {
    "tasks": ("/tasks/new?from={}", "/tasks?q=id:{}"),
    "cron-jobs": ("/tasks?q=job:{}", "/dead-letters?q=job:{}"),
    "dead-letter-groups": ("/bulk-operations/new?action=delete&q=fingerprint:{}",),
    "marks": (
        "/tasks?q=tag:{}",
        "/tasks?q=type:{}&fragment=1",
        "/tasks/new?task_type={}",
        "/dead-letters?q=tag:{}",
        "/dead-letters?q=type:{}",
        "/dead-letters/resolved?q=tag:{}",
        "/bulk-operations/new?action=delete&q=tag:{}",
        "/events?kind={}",
        "/cron?q={}",
    ),
}
_FORMS = (
    ("tasks", "/tasks/selected", {"action": "cancel", "t-{}": "on"}),
    ("events", "/events/acknowledge", {"ids": "{}", "note": "x"}),
    ("events", "/installation/events/acknowledge", {"ids": "{}", "note": "x"}),
    ("installation-events", "/events/acknowledge", {"ids": "{}", "note": "x"}),
    ("saved-views", "/tasks/views/remove", {"name": "{}"}),
    ("marks", "/bulk-operations", {"action": "delete", "q": "tag:{}", "expect": "1"}),
)


class Visitor:
    """A browser of one key."""

    def __init__(self, url: str, key: Key) -> None:
        self.key = key
        self._url = url
        self._session = requests.Session()
        self._session.headers["Origin"] = url
        answer = self.send("POST", "/sign-in", {"credentials": key.secret or ""})
        assert answer.status_code == 303, answer.text

    def send(self, method: str, path: str, form: Any = None) -> requests.Response:
        return self._session.request(
            method, self._url + path, data=form, timeout=_TIMEOUT, allow_redirects=False
        )


class PageCrawler:
    """Visits every page about the asker's things, the bystander's and nobody's."""

    def __init__(self, url: str, asker: Household, owner: Household, findings: Findings) -> None:
        kinds = ("admin", "read", "operate", "submit", "operator")
        self._visitors = [Visitor(url, asker.keys[kind]) for kind in kinds]
        self._asker = asker
        self._owner = owner
        self._findings = findings
        self.visits = 0

    def crawl(self) -> None:
        pages = {path: role for path, role in ROUTES.items() if path not in _STREAMS}
        for method, paths in (("GET", pages), ("POST", ACTIONS)):
            for path, role in paths.items():
                for visitor in self._visitors:
                    self._visit(visitor, method, path, role)
        for visitor in self._visitors:
            self._name_foreign(visitor)

    def _name_foreign(self, visitor: Visitor) -> None:
        """What is another's, in a filter or a form."""
        stock = self._owner.stock | {"marks": [self._owner.mark]}
        for kind, addresses in _QUERIES.items():
            for address in addresses:
                role = ROUTES[address.partition("?")[0]]
                for foreign in stock[kind][-3:]:
                    answers = [
                        (self._ask(visitor, "GET", address.format(name), role), name)
                        for name in (foreign, nobodys(foreign))
                    ]
                    self._alike(f"GET {address}", answers)
        for kind, path, fields in _FORMS:
            for foreign in stock[kind][-3:]:
                answers = [
                    (self._ask(visitor, "POST", path, ACTIONS[path], _filled(fields, name)), name)
                    for name in (foreign, nobodys(foreign))
                ]
                self._alike(f"POST {path}", answers)

    def _visit(self, visitor: Visitor, method: str, path: str, role: Role) -> None:
        names = PARAMETER.findall(path)
        if not names:
            if method == "GET":  # what an action without a thing does, it does to one's own
                self._ask(visitor, method, path, role)
            return
        before = path.partition("/{")[0].strip("/")
        kind = RESOURCES.get(before)
        if kind is None:
            self._findings.blame(f"{path}: proof/crawl/pages.py knows nothing to ask it for", path)
            return
        if method == "GET":
            self._ask(visitor, method, _of(path, self._asker.stock[kind][-1]), role)
        if kind in ("tenants", "operator-keys", "operator-subscriptions"):
            return  # whose these are is no secret to those who may ask
        for foreign in self._owner.stock[kind]:
            self._compare(visitor, method, path, role, foreign)

    def _compare(self, visitor: Visitor, method: str, path: str, role: Role, foreign: str) -> None:
        answers = [
            (self._ask(visitor, method, _of(path, name), role), name)
            for name in (foreign, nobodys(foreign))
        ]
        self._alike(f"{method} {path}", answers)

    def _alike(self, asked: str, answers: Sequence[tuple[requests.Response, str]]) -> None:
        theirs, no_ones = (_without_once(masked(answer, name)) for answer, name in answers)
        if theirs != no_ones:
            self._findings.blame(
                f"{asked}: a foreign id answers unlike an unknown one",
                f"unknown: {no_ones}\n  foreign: {theirs}",
            )

    def _ask(
        self, visitor: Visitor, method: str, path: str, role: Role, form: Any = _FORM
    ) -> requests.Response:
        answer = visitor.send(method, path, form if method == "POST" else None)
        self.visits += 1
        asked = f"with {visitor.key.kind}: {method} {path} {form}"
        whole = f"{answer.text} {dict(answer.headers)}"
        if leaked := self._owner.found_in(whole, asked, by_operator=visitor.key.of_operator):
            self._findings.blame(f"shows {sorted(leaked)[:3]} of another", asked, answer)
        if answer.status_code >= 500:
            self._findings.blame("an error of the server", asked, answer)
        refused, may = answer.status_code == 403, visitor.key.may(role)
        # Pages that show tasks may ask for the right to read them as well.
        wrong = visitor.key.may(Role.READ) if refused and may else refused == may
        if wrong and path != "/":
            self._findings.blame(f"{answer.status_code} with the role {role}", asked, answer)
        return answer


def _of(path: str, thing: str) -> str:
    """The path of the page about this thing; what else it asks for is made up."""
    return re.sub(PARAMETER, "x", re.sub(PARAMETER, thing, path, count=1))


def _filled(fields: Mapping[str, str], thing: str) -> dict[str, str]:
    return {name.format(thing): value.format(thing) for name, value in fields.items()}


def _without_once(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without what is new in every form."""
    return tuple(_ONCE.sub("*", part) if isinstance(part, str) else part for part in answer)
