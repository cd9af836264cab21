"""The planted bugs themselves, those of `remote_patches` included."""

import asyncio
import importlib
import importlib.resources
from typing import Any
from uuid import UUID, uuid5

from proof.campaigns import remote_patches
from proof.campaigns.planting import PATCHES, Withered, planted, returns, sql, swap

__all__ = ["PATCHES", "apply", "remote_patches"]


def apply(name: str) -> None:
    """Plant one bug in this process."""
    PATCHES[name]()


@planted("settle-without-fence")
def _settle_without_fence() -> None:
    sql({"settle": [(" AND t.fence = r.fence AND t.node = r.node", "")]})


@planted("renew-resurrects")
def _renew_resurrects() -> None:
    sql({"renew": [("beat = beat + 1", "beat = beat + 1, dead = false"), (" AND NOT dead", "")]})


@planted("ack-before-commit")
def _ack_before_commit() -> None:
    from gnomon.store.ports.work.tasks import Receipt

    def make(original: Any) -> Any:
        async def submit(self: Any, new: Any) -> Any:
            later = asyncio.ensure_future(original(self, new))
            later.add_done_callback(lambda done: done.cancelled() or done.exception())
            return Receipt(new.submission.id)

        return submit

    swap("gnomon.usecases.tasks.submission_batcher:SubmissionBatcher.submit", make)


@planted("commit-not-awaited")
def _commit_not_awaited() -> None:
    import asyncpg

    original = asyncpg.create_pool

    def create_pool(*args: Any, server_settings: dict[str, str], **options: Any) -> Any:
        settings = {**server_settings, "synchronous_commit": "off"}
        return original(*args, server_settings=settings, **options)

    swap("asyncpg:create_pool", lambda _: create_pool)


@planted("cursor-without-repair")
def _cursor_without_repair() -> None:
    from gnomon.node.ahead.scanner import ScanResult

    swap("gnomon.node.ahead.scanner:Scanner.repair", returns(ScanResult()))


@planted("claim-takes-running")
def _claim_takes_running() -> None:
    sql({"claim": [("AND task.state + 0 = 0", "AND task.state IN (0, 1)")]})


@planted("sweeps-the-living")
def _sweeps_the_living() -> None:
    sql({"orphans": [("WHERE n.dead", "WHERE true")]})


@planted("claims-early")
def _claims_early() -> None:
    now = "task.due_at <= (SELECT now FROM moment)"
    sql({"claim": [(now, f"{now} + interval '1 second'")]})
    swap(
        "gnomon.node.ahead.agenda:tick_at_or_after",
        lambda original: lambda moment: original(moment) - 1000,
    )


@planted("starts-held-early")
def _starts_held_early() -> None:
    swap(
        "gnomon.pipe.early_deliveries:EarlyDeliveries.due",
        lambda _: lambda held, _now: held.all(),
    )


@planted("retry-as-complete")
def _retry_as_complete() -> None:
    from gnomon.model.outcomes.verdict import COMPLETE

    swap("gnomon.model.outcomes.verdict:_after_failure", lambda _: lambda *_: COMPLETE)


@planted("cancel-not-settled")
def _cancel_not_settled() -> None:
    sql(
        {
            "settle": [
                ("(r.verdict IN (0, 4) OR t.cancel_requested)", "r.verdict IN (0, 4)"),
                (" AND NOT t.cancel_requested", ""),
            ]
        }
    )


@planted("cancel-not-written")
def _cancel_not_written() -> None:
    swap("gnomon.store.postgres.tasks.changing:PostgresTaskChange._archive", returns(None))


@planted("paused-run-anyway")
def _paused_run_anyway() -> None:
    sql({"claim": [("AND task.state + 0 = 0", "AND task.state IN (0, 2)")]})


@planted("at-most-once-again")
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
    swap("gnomon.node.settle.sweeper:decide", make)


@planted("begin-not-asked")
def _begin_not_asked() -> None:
    swap("gnomon.node.run.starter:Starter.may_begin", returns(True))


@planted("claim-not-reconciled")
def _claim_not_reconciled() -> None:
    from gnomon.node.settle.sweeper import SweepResult

    swap("gnomon.node.settle.reconciler:Reconciler.run_once", returns(0))
    swap("gnomon.node.settle.sweeper:Sweeper.take_overdue", returns(SweepResult()))


@planted("dead-not-swept")
def _dead_not_swept() -> None:
    from gnomon.node.settle.sweeper import SweepResult

    swap("gnomon.node.settle.sweeper:Sweeper.run_once", returns(SweepResult()))
    swap("gnomon.node.settle.sweeper:Sweeper.take_overdue", returns(SweepResult()))


@planted("outcomes-dropped")
def _outcomes_dropped() -> None:
    from gnomon.model.errors import StoreUnavailable

    def make(_original: Any) -> Any:
        async def patiently(self: Any, settlements: Any) -> Any:
            try:
                return await self._store.settle(settlements)
            except StoreUnavailable:
                return []

        return patiently

    swap("gnomon.node.settle.settlement_writer:SettlementWriter._patiently", make)


@planted("key-not-kept")
def _key_not_kept() -> None:
    def make(_original: Any) -> Any:
        async def claim(_connection: Any, wanted: Any, _keep_seconds: float) -> Any:
            return [None] * len(wanted)

        return claim

    swap("gnomon.store.postgres.tasks.idempotency:claim", make)


@planted("webhook-id-changes")
def _webhook_id_changes() -> None:
    def make(original: Any) -> Any:
        def headers(self: Any, delivery: Any, plan: Any, body: bytes) -> dict[str, str]:
            found: dict[str, str] = original(self, delivery, plan, body)
            task_id: UUID = delivery.key.id
            return {**found, "webhook-id": str(uuid5(task_id, str(delivery.attempt)))}

        return headers

    swap("gnomon.node.run.targets.http:HttpCaller._headers", make)


@planted("complete-without-fence")
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

    swap("gnomon.wiring.processes:prepare", make)
