"""Every statement that pages and the API read by has its plan looked at."""

import re
from inspect import get_annotations, getmembers, getsource, ismodule
from pathlib import Path
from types import ModuleType

from gnomon.api.context import Context
from gnomon.store.postgres import queries
from gnomon.store.postgres.live import signs

_STORE = "gnomon.store.postgres."
_WRITES = re.compile(
    r"\b(INSERT INTO|UPDATE gnomon|DELETE FROM|FOR (NO KEY )?UPDATE|FOR (KEY )?SHARE|pg_advisory)"
)
# Not asked while somebody waits for a page, or of tables that are as large as the fleet.
OTHERS = {
    "admit": "takes room for a submission: functions that test_quota_plans.py looks at",
    "any_api_key": "once at a start",
    "bulk_open": "by the chore of nodes",
    "common_troubles": "as large as the fleet",
    "count_live_keys": "when a key is made",
    "event_span": "a table of one row",
    "changed_worker_sessions": "as large as the fleet",
    "find_api_keys": "by the unique hash, before anything else is known",
    "get_api_key": "by its id, when it is changed",
    "list_feeds": "at most 20 of a tenant, and what waits for each by its key, up to 10 000",
    "live_api_keys": "when a key is made",
    "next_to_judge": "by the chore of nodes",
    "node_signs": "as large as the fleet",
    "own_troubles": "as large as the fleet",
    "ping": "reads nothing",
    "roster": "as large as the fleet",
    "signs_with": "when a secret is made",
    "task_types": "by the cache of all tenants, not for a request",
    "tenant_has": "when a tenant is removed",
    "usage_day": "reads nothing",
    "use": "functions that test_quota_plans.py looks at",
    "webhook_secret_value": "when a secret is shown, by its id",
    "worker_session": "by its id",
    "worker_session_leases": "as large as the fleet",
}


def modules() -> set[ModuleType]:
    """Those of the stores that a request has at hand, and of the parts that they are made of."""
    found = {signs}
    for hint in get_annotations(Context).values():
        if getattr(hint, "__module__", "").startswith(_STORE):
            found.add(__import__(hint.__module__, fromlist=["_"]))
    for module in tuple(found):
        found |= {
            each
            for _, each in getmembers(module, ismodule)
            if each.__name__[: len(_STORE)] == _STORE
        }
    return found


def reads() -> set[str]:
    """The statements that are named there, and change nothing."""
    named = {name for module in modules() for name in re.findall(r'"(\w+)"', getsource(module))}
    texts = {
        name: re.sub("--.*", "", path.read_text()) for name, path in queries.statements().items()
    }
    return {name for name in named & texts.keys() if not _WRITES.search(texts[name])}


def test_every_statement_that_reads_has_a_guard() -> None:
    here = Path(__file__)
    guarded = {
        name
        for path in here.parent.glob("*.py")
        if path != here
        for name in re.findall(r'"(\w+)"', path.read_text())
    }
    unguarded = reads() - guarded
    assert unguarded - OTHERS.keys() == set(), "add them to tests/plans"
    assert OTHERS.keys() - unguarded == set(), "they have a guard, or are gone"
