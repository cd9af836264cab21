"""The dashboard, seen by two tenants: every page and action, by keys of every role."""

import re
from collections.abc import Mapping
from typing import Any

import requests
from proof.crawl.alike import masked, nobodys
from proof.crawl.crawler import Findings
from proof.crawl.household import Household
from proof.crawl.roles import Key
from tests.dashboard.page_routes import ACTIONS, PAGES, PARAMETER

from gnomon.access.principal import Role

# The resource of the API that the pages below a path are about.
RESOURCES = {
    "bulk-operations": "bulk-operations",
    "cron": "cron-jobs",
    "dead-letters": "dead-letters",
    "keys": "keys",
    "limits": "limiters",
    "operator-keys": "operator-keys",
    "task-types": "task-types",
    "tasks": "tasks",
    "tenants": "tenants",
    "webhook-secrets": "webhook-secrets",
}
_TIMEOUT = 30.0
_FORM: Mapping[str, str] = {"reason": "x", "note": "x", "execute_at": "2190-01-01T00:00"}


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
        for method, paths in (("GET", PAGES), ("POST", ACTIONS)):
            for path, role in paths.items():
                for visitor in self._visitors:
                    self._visit(visitor, method, path, role)

    def _visit(self, visitor: Visitor, method: str, path: str, role: Role) -> None:
        names = PARAMETER.findall(path)
        if not names:
            if method == "GET":  # what an action without a thing does, it does to one's own
                self._ask(visitor, method, path, role)
            return
        kind = RESOURCES.get(path.split("/")[1])
        if kind is None:
            self._findings.blame(f"{path}: proof/crawl/pages.py knows nothing to ask it for", path)
            return
        if method == "GET":
            self._ask(visitor, method, _of(path, self._asker.stock[kind][-1]), role)
        if kind in ("tenants", "operator-keys"):
            return  # whose these are is no secret to those who may ask
        for foreign in self._owner.stock[kind]:
            self._compare(visitor, method, path, role, foreign)

    def _compare(self, visitor: Visitor, method: str, path: str, role: Role, foreign: str) -> None:
        unknown = nobodys(foreign)
        theirs = self._ask(visitor, method, _of(path, foreign), role)
        no_ones = self._ask(visitor, method, _of(path, unknown), role)
        if masked(theirs, foreign) != masked(no_ones, unknown):
            self._findings.blame(
                f"{method} {path}: a foreign id answers unlike an unknown one",
                f"unknown: {masked(no_ones, unknown)}\n  foreign: {masked(theirs, foreign)}",
            )

    def _ask(self, visitor: Visitor, method: str, path: str, role: Role) -> requests.Response:
        answer = visitor.send(method, path, _FORM if method == "POST" else None)
        self.visits += 1
        asked = f"with {visitor.key.kind}: {method} {path}"
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
