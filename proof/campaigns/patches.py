"""The planted bugs themselves: each changes the product in memory, in the process that asks for it.

A patch that no longer meets what it was written for fails: a bug that is not planted would be
"not found" for the wrong reason. The product never imports this.
"""

import asyncio
import importlib
import importlib.resources
import sys
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid5

Patch = Callable[[], None]

PATCHES: dict[str, Patch] = {}


class Withered(Exception):
    """The code that the bug was written for is not there any more."""


def apply(name: str) -> None:
    """Plant one bug in this process."""
    PATCHES[name]()


def _planted(name: str) -> Callable[[Patch], Patch]:
    def keep(patch: Patch) -> Patch:
        PATCHES[name] = patch
        return patch

    return keep


def _sql(changes: dict[str, list[tuple[str, str]]]) -> None:
    """Replace text in named statements, wherever the loader is used."""
    queries: Any = importlib.import_module("gnomon.store.postgres.queries")
    original = queries.query
    texts: dict[str, str] = {}
    for name, replacements in changes.items():
        text = original(name)
        for old, new in replacements:
            if old not in text:
                raise Withered(f"{name}.sql does not contain {old!r}")
            text = text.replace(old, new)
        texts[name] = text

    def query(name: str) -> str:
        return texts[name] if name in texts else original(name)

    queries.query = query
    for module in list(sys.modules.values()):
        if getattr(module, "query", None) is original:
            module.query = query  # type: ignore[attr-defined]


def _swap(where: str, make: Callable[[Any], Any]) -> None:
    """Replace `module:attribute` or `module:Class.attribute` by what `make` makes of it."""
    module_name, _, path = where.partition(":")
    owner: Any = importlib.import_module(module_name)
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    if name not in vars(owner):
        raise Withered(f"there is no {where}")
    setattr(owner, name, make(vars(owner)[name]))


def _returns(value: Any) -> Callable[[Any], Any]:
    async def nothing(*_: Any, **__: Any) -> Any:
        return value

    return lambda _original: nothing


@_planted("settle-without-fence")
def _settle_without_fence() -> None:
    _sql(
        {
            "settle": [
                (" AND task.fence = r.fence AND task.node = r.node", ""),
                (" AND t.fence = r.fence AND t.node = r.node", ""),
            ]
        }
    )


@_planted("renew-resurrects")
def _renew_resurrects() -> None:
    _sql({"renew": [("beat = beat + 1", "beat = beat + 1, dead = false"), (" AND NOT dead", "")]})


@_planted("ack-before-commit")
def _ack_before_commit() -> None:
    from gnomon.store.ports.work.tasks import Receipt

    def make(original: Any) -> Any:
        async def submit(self: Any, new: Any) -> Any:
            later = asyncio.ensure_future(original(self, new))
            later.add_done_callback(lambda done: done.cancelled() or done.exception())
            return Receipt(new.submission.id)

        return submit

    _swap("gnomon.usecases.tasks.submission_batcher:SubmissionBatcher.submit", make)


@_planted("commit-not-awaited")
def _commit_not_awaited() -> None:
    import asyncpg

    original = asyncpg.create_pool

    def create_pool(*args: Any, server_settings: dict[str, str], **options: Any) -> Any:
        settings = {**server_settings, "synchronous_commit": "off"}
        return original(*args, server_settings=settings, **options)

    _swap("asyncpg:create_pool", lambda _: create_pool)


@_planted("cursor-without-repair")
def _cursor_without_repair() -> None:
    from gnomon.node.ahead.scanner import ScanResult

    _swap("gnomon.node.ahead.scanner:Scanner.repair", _returns(ScanResult()))


@_planted("claim-takes-running")
def _claim_takes_running() -> None:
    _sql({"claim": [("AND task.state + 0 = 0", "AND task.state IN (0, 1)")]})


@_planted("sweeps-the-living")
def _sweeps_the_living() -> None:
    _sql({"orphans": [("WHERE n.dead", "WHERE true")]})


@_planted("claims-early")
def _claims_early() -> None:
    now = "task.due_at <= (SELECT now FROM moment)"
    _sql({"claim": [(now, f"{now} + interval '1 second'")]})
    _swap(
        "gnomon.node.ahead.agenda:tick_at_or_after",
        lambda original: lambda moment: original(moment) - 1000,
    )


@_planted("retry-as-complete")
def _retry_as_complete() -> None:
    from gnomon.model.outcomes.verdict import COMPLETE

    _swap("gnomon.model.outcomes.verdict:_after_failure", lambda _: lambda *_: COMPLETE)


@_planted("cancel-not-settled")
def _cancel_not_settled() -> None:
    _sql(
        {
            "settle": [
                ("(r.verdict IN (0, 4) OR t.cancel_requested)", "r.verdict IN (0, 4)"),
                (" AND NOT t.cancel_requested", ""),
            ]
        }
    )


@_planted("cancel-not-written")
def _cancel_not_written() -> None:
    _swap("gnomon.store.postgres.tasks.changing:PostgresTaskChange._archive", _returns(None))


@_planted("paused-run-anyway")
def _paused_run_anyway() -> None:
    _sql({"claim": [("AND task.state + 0 = 0", "AND task.state IN (0, 2)")]})


@_planted("at-most-once-again")
def _at_most_once_again() -> None:
    import msgspec

    from gnomon.model.outcomes.outcome import OutcomeKind
    from gnomon.model.tasks.task import DeliveryMode

    def make(original: Any) -> Any:
        def decide(outcome: Any, standing: Any, chance: float) -> Any:
            if outcome.kind is OutcomeKind.LOST:
                standing = msgspec.structs.replace(standing, mode=DeliveryMode.AT_LEAST_ONCE)
            return original(outcome, standing, chance)

        return decide

    importlib.import_module("gnomon.model.outcomes.verdict")
    _swap("gnomon.node.settle.sweeper:decide", make)


@_planted("begin-not-asked")
def _begin_not_asked() -> None:
    _swap("gnomon.node.run.starter:Starter.may_begin", _returns(True))


@_planted("claim-not-reconciled")
def _claim_not_reconciled() -> None:
    from gnomon.node.settle.sweeper import SweepResult

    _swap("gnomon.node.settle.reconciler:Reconciler.run_once", _returns(0))
    _swap("gnomon.node.settle.sweeper:Sweeper.take_overdue", _returns(SweepResult()))


@_planted("dead-not-swept")
def _dead_not_swept() -> None:
    from gnomon.node.settle.sweeper import SweepResult

    _swap("gnomon.node.settle.sweeper:Sweeper.run_once", _returns(SweepResult()))
    _swap("gnomon.node.settle.sweeper:Sweeper.take_overdue", _returns(SweepResult()))


@_planted("outcomes-dropped")
def _outcomes_dropped() -> None:
    from gnomon.model.errors import StoreUnavailable

    def make(_original: Any) -> Any:
        async def patiently(self: Any, settlements: Any) -> Any:
            try:
                return await self._store.settle(settlements)
            except StoreUnavailable:
                return []

        return patiently

    _swap("gnomon.node.settle.settlement_writer:SettlementWriter._patiently", make)


@_planted("key-not-kept")
def _key_not_kept() -> None:
    def make(_original: Any) -> Any:
        async def claim(_connection: Any, wanted: Any, _keep_seconds: float) -> Any:
            return [None] * len(wanted)

        return claim

    _swap("gnomon.store.postgres.tasks.idempotency:claim", make)


@_planted("webhook-id-changes")
def _webhook_id_changes() -> None:
    def make(original: Any) -> Any:
        def headers(self: Any, delivery: Any, target: Any, body: bytes) -> dict[str, str]:
            found: dict[str, str] = original(self, delivery, target, body)
            task_id: UUID = delivery.key.id
            return {**found, "webhook-id": str(uuid5(task_id, str(delivery.attempt)))}

        return headers

    _swap("gnomon.node.run.targets.http:HttpCaller._headers", make)


# Those of the pipe to remote workers lie in gateways.


@_planted("grant-not-asked")
def _grant_not_asked() -> None:
    """A worker is told to begin, and the store is not asked."""

    def make(_original: Any) -> Any:
        def ask(_self: Any, session: Any, claimed: Any) -> None:
            session.grants[claimed] = True
            session.unsaid_grants = True

        return ask

    _swap("gnomon.node.remote.conversation:Conversation._ask", make)


@_planted("adopted-and-released")
def _adopted_and_released() -> None:
    """A gateway that adopts a session releases all that runs on it, whatever its worker holds."""

    def make(original: Any) -> Any:
        def compare(self: Any, session: Any, poll: Any, reported: Any) -> None:
            from gnomon.pipe.envelope import Report

            for execution in [e for e in session.held.values() if e.adopted and not e.begun]:
                if execution.delivery.start_by < 0:  # it came with the session
                    self.pipe.drop(session, execution)
                    self.pipe.report(Report(execution.delivery))
            original(self, session, poll, reported)

        return compare

    _swap("gnomon.node.remote.conversation:Conversation._compare", make)


@_planted("receipt-before-commit")
def _receipt_before_commit() -> None:
    """Reports are acknowledged when they come, and written afterwards."""

    def make(original: Any) -> Any:
        def report(self: Any, report: Any) -> None:
            original(self, report)
            self.acknowledge([report], accepted=True)

        return report

    _swap("gnomon.pipe.http.http_pipe:HttpPipe.report", make)


@_planted("session-resurrects")
def _session_resurrects() -> None:
    _sql(
        {
            "renew_worker_sessions": [
                (" AND NOT dead", ""),
                ("beat = beat + 1", "beat = beat + 1, dead = false"),
            ],
            "worker_session": [("gateway, dead,", "gateway, false AS dead,")],
        }
    )


@_planted("complete-without-fence")
def _complete_without_fence() -> None:
    """The function in the database is replaced, by whoever starts first."""
    import re

    import asyncpg

    folder = importlib.resources.files("gnomon.store.postgres").joinpath("migrations")
    text = folder.joinpath("0018_baseline.up.sql").read_text()
    found = re.search(r"CREATE FUNCTION gnomon.complete_run.*?\$\$;", text, re.DOTALL)
    check = "AND t.fence = complete_run.fence AND t.node = complete_run.node"
    if found is None or check not in found[0]:
        raise Withered("gnomon.complete_run is not what it was")
    broken = found[0].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace(check, "")

    def make(original: Any) -> Any:
        async def prepare(dsn: str, *rest: Any) -> None:
            await original(dsn, *rest)
            connection = await asyncpg.connect(dsn)
            try:
                await connection.execute("SELECT pg_advisory_lock(4711)")
                await connection.execute(broken)
            finally:
                await connection.close()

        return prepare

    _swap("gnomon.wiring.processes:prepare", make)
