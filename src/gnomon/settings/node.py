"""Section `node`: how much one node runs, how far ahead it reads, and which tasks it takes."""

from typing import ClassVar

from gnomon.settings.section import Section

LANES = ("CRITICAL", "HIGH", "MEDIUM", "LOW")


class NodeSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "node"

    name: str | None = None  # None: host name and process id
    app: str | None = (
        None  # module:attribute of the app whose handlers it runs; None: webhooks only
    )
    slots: int = 1000  # tasks that run at once in one node
    critical_slots: int | None = None  # of these, kept for CRITICAL tasks; None: one in twenty
    prefetch: int = 1000  # claimed beyond the free slots, so that a slot never waits for a claim
    batch: int = 1000  # tasks in one claim or settling statement
    payload_memory_bytes: int = 64 * 1024 * 1024  # for large payloads of tasks that run
    horizon_seconds: float = 15.0  # how far ahead due work is read into memory
    window: int = 40_000  # entries held in memory at most, whatever the backlog
    scan_seconds: float = 0.5  # between scans ahead; hints make new work faster than that
    plan_seconds: float = 1.0  # between looks for cron jobs that fire soon
    plan_ahead_seconds: float = 10.0  # how long before its time a fire is planned
    sweep_seconds: float = 1.0  # between looks for lost work
    steal_seconds: float = 1.0  # how late others' tasks are before an idle node takes them
    lease_seconds: float = 10.0
    drain_seconds: float = 20.0
    timeout_grace_seconds: float = 10.0  # after a task's timeout, before others take it over
    stuck_after_seconds: float = 300.0  # due for so long with nothing in its way, a task is stuck
    serve_tenants: tuple[str, ...] = ()  # a pool: this node runs only what is in all four lists,
    serve_types: tuple[str, ...] = ()  # of which an empty one holds everything
    serve_queues: tuple[str, ...] = ()
    serve_lanes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.require_at_least_one(
            "slots", "batch", "window", "lease_seconds", "payload_memory_bytes"
        )
        self.require_positive(
            "horizon_seconds",
            "scan_seconds",  # a loop without pause at 0
            "plan_seconds",
            "plan_ahead_seconds",
            "sweep_seconds",
            "steal_seconds",
            "stuck_after_seconds",
            "timeout_grace_seconds",  # half of it is all that a claimed task may wait for a slot
        )
        self.require_not_negative("prefetch", "drain_seconds")
        fits = self.critical_slots is None or 0 <= self.critical_slots < self.slots
        self.require("critical_slots", "be at least 0 and less than node.slots", holds=fits)
        unknown = sorted(set(self.serve_lanes) - set(LANES))
        rule = f"be among {', '.join(LANES)}, not {', '.join(unknown)}"
        self.require("serve_lanes", rule, holds=not unknown)

    @property
    def reserved_slots(self) -> int:
        """How many slots are kept for CRITICAL tasks."""
        if self.critical_slots is not None:
            return self.critical_slots
        return max(1, self.slots // 20) if self.slots > 1 else 0
