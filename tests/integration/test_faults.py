"""Every statement of every chore fails, once and then for ever: the node lives, and says so."""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle
from typing import Any
from uuid import UUID

import msgspec
from tests.integration.cron_support import created
from tests.integration.faulty import CLASSES, Cranked, Faults, cranked, statements_of_a_node
from tests.integration.handlers import gates
from tests.integration.nodes import call_of
from tests.integration.support import Connection, archived, database_now, joined, key_of, store
from tests.waiting import eventually

from gnomon.chores import THE_CHORE
from gnomon.cli.admin.checks.troubles import chores as troubles_seen
from gnomon.cli.admin.checks.troubles import parked_jobs
from gnomon.clock import new_id
from gnomon.cron.job import CronJob, Overlap
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, Submission
from gnomon.store.postgres.database import Database

# The short run gives each statement one class of error, in turn; the long one all of them.
ALL_CLASSES = os.environ.get("GNOMON_FAULTS") == "all"
ONCE = RetryPolicy(max_retries=0)
# Named in the same modules, and asked by others: the API, a joining or leaving node, its lease.
NOT_OF_CHORES = {
    "acknowledge_events", "activity_points", "activity_tenants",
    "activity_types", "bulk_get", "bulk_list", "count_group", "dead_groups", "deciding_version",
    "event_span", "get_events", "join_roster", "last_tracebacks", "leave_roster", "list_events",
    "list_resolved",
    "open_events", "read_tenant_events", "renew", "task_types", "upcoming",
}  # fmt: skip
# Asked by gateways, which have tests of their own.
NOT_OF_CHORES |= {"claim_for_sessions"}
# Asked where a heartbeat is set, by those who send, and where a task is stuck.
NOT_OF_CHORES |= {"is_well", "note_recovery", "subscription_by_id", "enter_stuck"}
# Asked where many are due at one instant: see test_early_starts.
NOT_OF_CHORES |= {"recalls"}
# Asked only after another one has failed.
AFTER = {"next_to_judge": "judge_fires", "park_job": "insert_occurrences"}
# Where nothing can be told, nothing is: but it is in the log and among the metrics.
UNTELLABLE = {"keep_troubles"}
MANY = 70
AT_ONCE = 15  # statements that fail; some let several chores fail

_UNREADABLE = 'UPDATE gnomon.task SET target = \'{"type": "unheard of"}\' WHERE id = $1'
_RUNNING = """
UPDATE gnomon.task SET state = 1, node = $2, attempt = 1, fence = 1, started_at = gnomon.now(),
    run_until = gnomon.now() + make_interval(secs => $3)
WHERE id = $1
"""
_FIRE = """
UPDATE gnomon.cron_job SET next_fire_at = date_trunc('ms', gnomon.now()) + make_interval(secs => $2)
WHERE id = $1
"""
_SILENT = (
    "UPDATE gnomon.node SET alive_until = gnomon.now() - interval '1 s' WHERE incarnation = $1"
)
_LIMITER = """
INSERT INTO gnomon.limiter (tenant_id, name, task_type, concurrency)
VALUES ('default', 'limited', 'limited', 2)
ON CONFLICT (tenant_id, name) DO UPDATE SET concurrency = 5 - limiter.concurrency
"""
_BUCKET = "INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key) VALUES ('default', 'idle', $1)"
# For the chores of events: a lane that is crowded, a condition that is over, what a tenant has
# used, and a subscriber whose time has come and who could not be told; a task that is stuck no
# more, and two with levels.
_FOR_EVENTS = """
INSERT INTO gnomon.crowded_lane VALUES ('innocent', 3, 2, 1, false, 5) ON CONFLICT DO NOTHING;
UPDATE gnomon.revision SET crowded_at = gnomon.now();
INSERT INTO gnomon.condition (kind, tenant_id, key, event_id, began_at, detail)
VALUES ('tasks.retry_storm', 'default', gen_random_uuid(), gen_random_uuid(), gnomon.now(), '{}');
INSERT INTO gnomon.usage (tenant_id, day, session)
SELECT 'innocent', gnomon.now()::date - n, 0 FROM generate_series(-1, 1) AS n
ON CONFLICT DO NOTHING;
INSERT INTO gnomon.subscription (id, name, channel, rules, created_at, updated_at)
VALUES ('00000000-0000-7000-8000-000000000000', 'silent',
    '{"type": "email", "address": "nobody@example.com"}', '{}', gnomon.now(), gnomon.now())
ON CONFLICT (id) DO UPDATE SET failing_since = NULL;
INSERT INTO gnomon.subscription_inbox (subscription_id, inbox, next_at)
VALUES ('00000000-0000-7000-8000-000000000000', '{}', gnomon.now())
ON CONFLICT (subscription_id) DO UPDATE SET next_at = excluded.next_at;
"""
_UNSENT = """
INSERT INTO gnomon.task (tenant_id, id, task_type, target, due_at, state, payload)
VALUES ('_notifications', $1, 'x', '{"type": "notification", "on_behalf_of":
    "default", "host": "", "subscription_id": "00000000-0000-7000-8000-000000000000"}',
    gnomon.now(), 4, '{"purpose": "events"}')
"""
_STUCK = """
INSERT INTO gnomon.stuck_task (tenant_id, task_id, reason, since, found_at)
VALUES ('default', $1, 'unstarted', gnomon.now(), gnomon.now())
"""
_WATCHED = """
INSERT INTO gnomon.watched_task (tenant_id, task_id, start_by, look_at)
SELECT 'default', id, gnomon.now() - interval '1 hour', gnomon.now() - interval '1 hour'
FROM unnest(ARRAY[$1, gen_random_uuid()]) AS id
ON CONFLICT (tenant_id, task_id) DO UPDATE
SET start_by = excluded.start_by, look_at = excluded.look_at
"""


class Household:
    """Something to do for every chore, again and again."""

    def __init__(self, crank: Cranked, database: Database, connection: Connection) -> None:
        self.crank = crank
        self.database = database
        self.connection = connection
        self.number = 0
        self.canaries: list[Submission] = []
        self.told: set[str] = set()

    @property
    def who(self) -> str:
        return f"round {self.number}"

    async def _store(self, **values: Any) -> Submission:
        now = await database_now(self.connection)
        _, new = call_of(now, values.pop("function", "echo"), **values)
        await store(self.database, new)
        return new

    async def canary(self) -> None:
        """A task of somebody who has nothing to do with the trouble."""
        self.canaries.append(await self._store(tenant_id="innocent"))

    async def round(self) -> None:
        """Make every chore speak with the store."""
        self.number += 1
        await self.connection.execute(_LIMITER)
        await self.connection.execute(_BUCKET, self.who)
        await self.connection.execute(_FOR_EVENTS)
        # Of a type of its own: only the first late starts of a type are told in a minute.
        later = await self._store(
            due_in=3600.0,
            task_type=f"late-{self.number}",
            sla_seconds=60.0,
            warn_after_seconds=60.0,
        )
        await self.connection.execute(_STUCK, later.id)
        await self.connection.execute(_WATCHED, later.id)
        await self.connection.execute(_UNSENT, new_id(await database_now(self.connection)))
        self.crank.an_hour_passes()
        await self.canary()
        await self.tasks()
        jobs = await self.jobs()
        await self.fire(jobs, 3.0)
        await self.turn(prune=True)
        for _ in range(3):
            await self.fire(jobs, 0.0)
            await self.turn()
        await self.peer()
        gates[self.who].set()
        await self.turn(2)

    async def tasks(self) -> None:
        await self._store(delivery=DeliveryMode.AT_MOST_ONCE, retry_policy=ONCE)
        await self._store(payload={"fill": "x" * 4000})
        await self._store(task_type="limited")
        now = await database_now(self.connection)
        await store(self.database, *(call_of(now, "echo")[1] for _ in range(MANY)))
        away = HttpTarget(f"http://127.0.0.1:{2000 + self.number}/")
        new = call_of(now, "echo", retry_policy=ONCE)[1]
        await store(self.database, msgspec.structs.replace(new, target=away))
        unreadable, lost = await self._store(), await self._store()
        await self.connection.execute(_UNREADABLE, unreadable.id)
        await self.connection.execute(_RUNNING, lost.id, UUID(int=self.number), 60.0)

    async def jobs(self) -> list[CronJob]:
        """Of every policy, and one whose run waits to be tried again."""
        payload = msgspec.Raw(msgspec.json.encode({"who": self.who}))
        wait, snooze = PythonTarget("wait_at_the_gate"), PythonTarget("snooze_for_ever")
        return [
            await created(
                self.database,
                name=f"{number}/{self.number}".replace("/", " of "),
                cron_expression="0 0 1 1 *",
                overlap_policy=policy,
                sla_seconds=0.001,
                payload_template=payload,
                target=target,
            )
            for number, (policy, target) in enumerate(
                [*((p, wait) for p in Overlap), (Overlap.CANCEL_RUNNING, snooze)]
            )
        ]

    async def fire(self, jobs: list[CronJob], seconds: float) -> None:
        for job in jobs:
            await self.connection.execute(_FIRE, job.id, seconds)

    async def peer(self) -> None:
        """A node that does not get to its tasks, has one that is overdue, and dies."""
        peer = await joined(self.database, self.who)
        overdue = await self._store()
        await self.connection.execute(_RUNNING, overdue.id, peer, -60.0)
        await self._store(task_type="limited")
        await self.turn()
        await self.connection.execute(_SILENT, peer)
        with self.crank.faults.also("claim", "40001"):  # what was taken for it is in doubt
            for _ in range(2):
                self.crank.wait(6.0)
                await self._store(task_type="limited")
                await self.turn()

    async def turn(self, times: int = 1, *, prune: bool = False) -> None:
        """Turn the crank, and hear what is told of it."""
        for _ in range(times):
            await self.crank.turn(prune=prune)
            await self.listen()

    async def listen(self) -> None:
        """All that `gnomon doctor` says about chores and jobs; each with its remedy."""
        found = await troubles_seen(self.connection) + await parked_jobs(self.connection)
        assert all(check.remedy for check in found if not check.ok)
        self.told |= {check.detail for check in found}

    async def is_done(self) -> bool:
        rows = [await archived(self.connection, key_of(each)) for each in self.canaries]
        return all(row is not None for row in rows)

    async def runs(self) -> None:
        """What others submitted runs, whatever fails."""

        async def done() -> bool:
            await self.turn()
            return await self.is_done()

        await eventually(done)

    async def recovers(self) -> None:
        """No fault is left: soon nothing fails, and all that others submitted has run."""
        troubles = self.crank.node.chores.troubles

        async def done() -> bool:
            self.crank.wait(20.0)  # past all pauses
            await self.turn(prune=True)
            return not any(t.about == THE_CHORE for t in troubles.all()) and await self.is_done()

        await eventually(done)
        self.canaries.clear()
        await self.connection.execute("DELETE FROM gnomon.cron_job")

    async def fails(self, names: Iterable[str], sqlstates: Iterator[str]) -> set[str]:
        """Let these fail for ever, and then no more; gives those that were asked for meanwhile."""
        faults = self.crank.faults
        faults.raised.clear()
        self.told.clear()
        for name in names:
            if name in AFTER:
                faults.fail(AFTER[name], CLASSES["untranslatable character"])
            faults.fail(name, next(sqlstates))
        await self.round()
        failed = {name for name in names if faults.raised[name]}
        for name in failed - UNTELLABLE:
            assert any(f"a fault in {name} " in told for told in self.told), (name, self.told)
        faults.lift()
        await self.recovers()
        return failed


def groups(chores: Mapping[str, str]) -> Iterator[list[str]]:
    """The statements, such that no two of a group are of one chore, and that all that fail at once
    are shown."""
    by_chore: dict[str, list[str]] = {}
    for name, chore in sorted(chores.items()):
        by_chore.setdefault(chore, []).append(name)
    while any(by_chore.values()):
        yield [names.pop() for names in [n for n in by_chore.values() if n][:AT_ONCE]]


async def test_every_statement_fails_once_and_for_ever(
    database: Database, connection: Connection, database_dsn: str
) -> None:
    faults = Faults()
    async with cranked(database_dsn, faults, node_window=64) as crank:
        house = Household(crank, database, connection)
        await house.round()
        await house.recovers()
        assert statements_of_a_node() <= {*faults.seen, *AFTER, *NOT_OF_CHORES}, "some are untested"
        chores = {name: chore for name, chore in faults.seen.items() if name not in NOT_OF_CHORES}
        chores |= {name: chores[before] for name, before in AFTER.items()}
        for name in chores:
            faults.fail(name, CLASSES["unknown"], once=True)
        await house.round()
        await house.recovers()
        faults.lift()

        sqlstates = cycle(CLASSES.values())
        for _ in CLASSES if ALL_CLASSES else [None]:
            left = dict(chores)
            together = {n: c for n, c in chores.items() if n not in UNTELLABLE}
            # Some are not asked for where another has failed: then with others, and then alone.
            for _ in range(2):
                for names in groups(together):
                    for name in await house.fails(names, sqlstates):
                        del left[name], together[name]
            for name in left:
                assert await house.fails([name], sqlstates) == {name}
            next(sqlstates)
        assert crank.errors("dispatch") > 0


async def test_a_node_that_starts_on_what_fails(
    database: Database, connection: Connection, database_dsn: str
) -> None:
    """Whatever its chores meet from their first turn on, as far as tasks can be run at all."""
    async with cranked(database_dsn, Faults(), node_window=64) as crank:
        house = Household(crank, database, connection)
        await house.round()
        chores = {n: c for n, c in crank.faults.seen.items() if n not in NOT_OF_CHORES}
    needed = {"scan", "oldest_writer", "repair", "claim", "settle", "roster", "flows", "heads"}
    needed |= {"declare_dead", "steal"}  # else nobody serves the shards of nodes that are gone
    # Without what it knows of tenants it does not join, and tries again.
    needed |= {name for name, chore in chores.items() if chore == "directory"}
    for sqlstate in ("22P05", "ZZ999", "57014"):
        faults = Faults()
        for name in chores.keys() - needed:
            faults.fail(name, sqlstate)
        async with cranked(database_dsn, faults, node_window=64) as crank:
            house.crank = crank
            await house.round()
            await house.runs()
            faults.lift()
            await house.recovers()
