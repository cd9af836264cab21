"""Every statement that is on the way of each task, or runs every few seconds: what it is asked, and
by which indexes alone it may read. The tests of their plans go through this list."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from gnomon.clock import new_id, new_incarnation
from gnomon.model.tasks.task import DEFAULT_TENANT

NODE = new_incarnation()
SESSION = new_incarnation()
SHARDS = list(range(256))
LOWEST = UUID(int=0)
# Tables that grow with the load. What is said of plans is said of how these are read.
LARGE = frozenset({"task", "idempotency"})
KEY = frozenset({"task_pkey"})
DUE = frozenset({"task_due"})
FLOW = frozenset({"task_flow"})
RUNNING = frozenset({"task_running"})
NAMES = frozenset({"idempotency_pkey"})
QUEUED = frozenset({"task_queued"})


class Sample(NamedTuple):
    """What the statements are asked about."""

    now: datetime
    waiting: Sequence[UUID]
    running: Sequence[UUID]
    jobs: Sequence[UUID]
    keys: Sequence[str]
    flow: int

    def first(self, count: int) -> "Sample":
        return self._replace(
            waiting=self.waiting[:count],
            running=self.running[:count],
            jobs=self.jobs[:count],
            keys=self.keys[:count],
        )


class Hot(NamedTuple):
    """A statement, and how it may read the large tables."""

    name: str
    indexes: frozenset[str]
    args: Callable[[Sample], Sequence[Any]]
    walks: bool = False  # may walk an index from end to end: it holds only what is asked for
    known: bool = False  # begins at places that are remembered


def _tenants(of: Sequence[object]) -> list[str]:
    return [DEFAULT_TENANT] * len(of)


def _settled(
    s: Sample, verdict: int, addresses: Sequence[tuple[int, int] | None] = (None,)
) -> list[Any]:
    at, count = s.now.timestamp(), len(s.running)
    return [
        [DEFAULT_TENANT], list(s.running), [1], [NODE], [verdict], [0], [0.0], [False], [0],
        [at] * count, [at] * count, ["w"], [None], [200], ["ok"], [None], [False], [None], [None],
        addresses, NODE, 10.0, 16, SHARDS, '[{"handlers": ["x"]}]',
    ]  # fmt: skip


def _new_tasks(s: Sample) -> list[Any]:
    ids = [new_id(s.now) for _ in s.waiting]
    return [
        [DEFAULT_TENANT], ids, [2], [0], [s.now] * len(ids), [s.now] * len(ids), [], [3], [30.0],
        ["x"], [], ['{"type": "python", "function": "f"}'], [None] * len(ids),
        *([[]] * 17), [DEFAULT_TENANT], [len(ids)], [0], [0],
    ]  # fmt: skip


# Whether a node has a pool; its tenants, lanes, types and queues; whether it has
# webhooks; its handlers.
NO_POOL: tuple[Any, ...] = (False, None, None, None, None, True, None)
A_POOL: tuple[Any, ...] = (True, [DEFAULT_TENANT], [1, 2], ["x"], None, True, None)
OF_WEBHOOKS: tuple[Any, ...] = (True, None, None, None, None, True, [])
OF_A_WORKER: tuple[Any, ...] = (True, [DEFAULT_TENANT], None, None, None, False, ["x", "y"])


def _cursors(s: Sample) -> list[Any]:
    return [SHARDS, [s.now - timedelta(seconds=1)] * 256, [LOWEST] * 256]


def _scan(s: Sample, pool: tuple[Any, ...]) -> list[Any]:
    horizon = s.now + timedelta(seconds=15)
    return [*_cursors(s), horizon, 30, *pool, ['[{"tenants": ["b"]}]'] * 256]


def _repair(s: Sample, pool: tuple[Any, ...]) -> list[Any]:
    ahead = s.now + timedelta(seconds=15)
    since, until = s.now - timedelta(seconds=1), s.now + timedelta(seconds=2)
    others = ['[{"tenants": ["b"]}]'] * 256
    return [SHARDS, [ahead] * 256, [LOWEST] * 256, [since] * 256, until, 30, *pool, others]


def _heads(s: Sample) -> list[Any]:
    after = s.now - timedelta(seconds=1)
    return [[DEFAULT_TENANT], [2], [s.flow], [after], [LOWEST], [100], SHARDS]


_BEFORE_ALL: tuple[Any, ...] = ("", 0, -(1 << 63))


def _known_flows(s: Sample) -> list[Any]:
    since = s.now - timedelta(seconds=1)
    return [*_BEFORE_ALL, 2000, [DEFAULT_TENANT], [2], [s.flow], [since]]


def _exchange(s: Sample) -> list[Any]:
    """Of a bucket that a node has permits of which is gone."""
    told = [1], [s.now], [1], [s.now]
    return [NODE, 1, [DEFAULT_TENANT], ["few"], [""], [60], [0], [1], [1], [1.0], *told]


BY_KEY = [
    Hot("claim", KEY, lambda s: [NODE, [DEFAULT_TENANT], s.waiting, 10.0, False, [s.flow], 0.05]),
    Hot(
        "claim_for_sessions",
        KEY,
        lambda s: [NODE, [DEFAULT_TENANT], s.waiting, 10.0, False, [s.flow], [SESSION]],
    ),
    Hot(
        "claim_for_sessions",
        KEY,
        lambda s: [
            NODE,
            _tenants(s.waiting),
            s.waiting,
            10.0,
            False,
            [s.flow] * len(s.waiting),
            [SESSION] * len(s.waiting),
        ],
    ),
    Hot("begin", KEY, lambda s: [[NODE], _tenants(s.running), s.running, [1] * len(s.running)]),
    Hot("settle", KEY, lambda s: _settled(s, 0)),
    Hot("settle", KEY, lambda s: _settled(s, 1)),
    Hot("settle", KEY, lambda s: _settled(s, 0, [(0, 1)] * len(s.running))),
    Hot("insert_plain_tasks", frozenset(), _new_tasks),
    Hot("unended", KEY, lambda s: [_tenants(s.waiting), s.waiting]),
    Hot("flows_of", KEY, lambda s: [_tenants(s.waiting), s.waiting]),
    Hot("gated_runs", KEY, lambda s: [_tenants(s.waiting), s.waiting]),
    Hot("take_back_reservations", KEY, lambda s: [_tenants(s.waiting), s.waiting]),
    Hot("queue_runs", KEY, lambda s: [_tenants(s.waiting), s.waiting]),
    Hot("start_queued", KEY, lambda s: [_tenants(s.waiting), s.waiting]),
    Hot(
        "skip_runs",
        KEY,
        lambda s: [_tenants(s.waiting), s.waiting, ["why"] * len(s.waiting), [1] * len(s.waiting)],
    ),
    Hot(
        "active_runs",
        KEY | {"task_queued"},
        lambda s: [_tenants(s.waiting), s.waiting, s.waiting],
    ),
    Hot(
        "claim_keys",
        frozenset(),
        lambda s: [
            _tenants(s.keys),
            s.keys,
            [b""] * len(s.keys),
            [LOWEST] * len(s.keys),
            ["1"] * len(s.keys),
            60.0,
        ],
    ),
    Hot("read_keys", NAMES, lambda s: [_tenants(s.keys), s.keys]),
    Hot("free_keys", NAMES, lambda s: [_tenants(s.keys), s.keys]),
    Hot("answered_keys", NAMES, lambda s: [DEFAULT_TENANT, s.keys, [b""] * len(s.keys)]),
]
OF_ONE = [
    Hot("lock_task", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0]]),
    Hot("get_task", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0]]),
    Hot("payload", frozenset(), lambda s: [DEFAULT_TENANT, s.waiting[0]]),
    Hot("executions", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0], -1, 51, 1]),
    Hot("transitions", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0], 0, 51]),
    Hot("last_executions", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0], 50]),
    Hot("circumstances", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0]]),
    Hot("interrupt_run", KEY, lambda s: [DEFAULT_TENANT, s.running[0], "channel"]),
    Hot("end_waiting_run", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0], "why"]),
    Hot("archive_task", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0], 11, None, None, None]),
    Hot("set_limit_keys", KEY, lambda s: [DEFAULT_TENANT, s.waiting[0], None]),
    Hot(
        "move_task",
        KEY,
        lambda s: [DEFAULT_TENANT, s.waiting[0], 0, s.now, None, 3, 0, False],
    ),
    Hot("answer_key", NAMES, lambda s: [DEFAULT_TENANT, s.keys[0], "1"]),
]
# Functions, whose plans cannot be asked for: what they read can.
IN_ORDER = [
    Hot("scan", DUE, lambda s: _scan(s, NO_POOL)),
    Hot("scan", DUE, lambda s: _scan(s, A_POOL)),
    Hot("scan", DUE, lambda s: _scan(s, OF_WEBHOOKS)),
    Hot("scan", DUE, lambda s: _scan(s, OF_A_WORKER)),
    Hot("repair", DUE, lambda s: _repair(s, NO_POOL)),
    Hot("repair", DUE, lambda s: _repair(s, A_POOL)),
    Hot("repair", DUE, lambda s: _repair(s, OF_WEBHOOKS)),
    Hot("repair", DUE, lambda s: _repair(s, OF_A_WORKER)),
    Hot("steal", DUE, lambda s: [SHARDS[:170], 1.0, 4, 1000, 1, *NO_POOL]),
    Hot("steal", DUE, lambda s: [SHARDS[:1], 1.0, 4, 1000, 1, *A_POOL]),
    Hot("steal", DUE, lambda s: [SHARDS[:170], 1.0, 4, 1000, 1, *OF_WEBHOOKS]),
    Hot("steal", DUE, lambda s: [SHARDS[:170], 1.0, 4, 1000, 1, *OF_A_WORKER]),
    Hot("heads", FLOW, _heads),
    Hot("flows", FLOW, lambda s: [*_BEFORE_ALL, 2000, [], [], [], []]),
    Hot("flows", FLOW, _known_flows, known=True),
    Hot("exchange_permits", RUNNING, _exchange),  # what runs on a node that is gone
    Hot("due_jobs", frozenset({"cron_job_due"}), lambda s: [SHARDS, s.now, 2]),
]
# They read all entries of an index that holds only what they ask for, or all of one node or job.
OF_AN_INDEX = [
    Hot("queued_jobs", QUEUED, lambda s: [SHARDS, 100], walks=True),
    Hot("queued_runs", QUEUED, lambda s: [_tenants(s.jobs), s.jobs]),
    Hot("any_queued", QUEUED, lambda s: [], walks=True),
    Hot("orphans", RUNNING, lambda s: [500]),
    Hot("overdue", RUNNING, lambda s: [500], walks=True),
    Hot("running_on", RUNNING, lambda s: [NODE]),
    Hot("running_keys", RUNNING, lambda s: [NODE]),
    Hot("held_by_sessions", RUNNING, lambda s: [[NODE, SESSION]]),
    Hot("list_worker_sessions", RUNNING, lambda s: [DEFAULT_TENANT, 100]),
    Hot("overview_due", DUE, lambda s: [100]),
    Hot("overview_later", DUE, lambda s: [40]),
    Hot("overview_running", RUNNING, lambda s: [10_000], walks=True),
    Hot("overview_dead", frozenset({"task_dead"}), lambda s: [10_000], walks=True),
    Hot("nodes", RUNNING, lambda s: [1000]),
    Hot("overrun_tasks", RUNNING, lambda s: [60.0, 20], walks=True),
    Hot("dead_notifications", frozenset({"task_dead"}), lambda s: ["_notifications", 100]),
]
