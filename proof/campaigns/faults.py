"""Which faults happen, to whom and when. Pure: the same seed and options give the same plan.

Each kind has its share, spread over the whole time. A victim is left alone until it had time to
come back; where others still work, at least one node is spared, except by the rare kill of several.
"""

import random
from collections.abc import Sequence

import msgspec

NODE_POINTS = (
    "before_claim",
    "after_claim",
    "before_begin",
    "after_begin",
    "before_call",
    "after_call",
    "before_settle",
    "after_settle",
    "before_renew",
    "after_renew",
)
API_POINTS = ("before_submit_commit", "after_submit_commit")
# Where remote workers are, an API process is their gateway, which claims and settles for them.
GATEWAY_POINTS = (*API_POINTS, "before_claim", "after_claim", "before_settle", "after_settle")
WORKER_POINTS = ("before_call", "after_call", "before_poll", "after_poll", "before_beat")
POSTGRES = "postgres"
REDIS, RABBITMQ, KAFKA = "redis", "rabbitmq", "kafka"

# Faults a minute, at density 1.
RATES = {
    "kill": 5.4,
    "crash_point": 2.8,
    "pause": 2.4,
    "postgres_fast": 0.65,
    "postgres_immediate": 0.55,
    "cut": 2.6,
    "delay": 1.2,
    "black_hole": 1.2,
    "lost_answer": 2.2,
}
# Where workers are behind a broker. It is always started without data.
REDIS_RATES = {"redis_kill": 1.6, "redis_pause": 1.0, "redis_cut": 1.6, "redis_full": 0.8}
PIPE_RATES = {
    REDIS: REDIS_RATES,
    RABBITMQ: {
        "rabbitmq_kill": 0.6, "rabbitmq_pause": 1.0, "rabbitmq_cut": 1.6, "rabbitmq_full": 0.8,
    },
    KAFKA: {"kafka_kill": 0.6, "kafka_pause": 1.0, "kafka_cut": 1.6, "kafka_grow": 0.8},
}  # fmt: skip
_STRUCK = {kind: name for name, rates in PIPE_RATES.items() for kind in rates}
KILLS = frozenset({"kill", "crash_point"})
RESTARTS = frozenset({"postgres_fast", "postgres_immediate"})
CONNECTIONS = frozenset({"cut", "delay", "black_hole", "lost_answer"})
FAMILIES = {
    "kills": KILLS,
    "pauses": frozenset({"pause"}),
    "postgres_restarts": RESTARTS,
    "connection_faults": CONNECTIONS,
}

_DISABLES = KILLS | {"pause", "black_hole"}  # nothing can be done by a node meanwhile
_OF_API = {"kill": 0.12, "crash_point": 0.2, "pause": 0.1}  # how often the victim is an API
_OF_API_CONNECTION = 0.25
_OF_WORKERS = 0.6  # how often a remote worker, where there are any
_TWO, _ALL = 0.06, 0.02  # how often a kill takes two nodes, or all
_BOTH = 0.2  # how often a kill takes a remote worker and a gateway
_COMING_BACK = 2.5  # seconds that a process needs after its fault
_STARTING = {"rabbitmq_kill": 25.0, "kafka_kill": 25.0}  # and that these need to start


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A fault to come. `at` is in seconds since the load began."""

    at: float
    kind: str
    victim: str
    seconds: float = 0.0  # that it lasts, or that it may take to strike
    amount: float = 0.0  # seconds of a delay, number of answers to lose
    point: str = ""  # where to crash


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made from."""

    seconds: float
    nodes: tuple[str, ...] = ("node-1", "node-2", "node-3")
    apis: tuple[str, ...] = ("api-1",)
    workers: tuple[str, ...] = ()  # remote ones
    pointed: tuple[str, ...] | None = None  # those of them that have points; None: all
    lease: float = 2.0
    density: float = 1.0
    rates: dict[str, float] = msgspec.field(default_factory=lambda: dict(RATES))
    node_points: tuple[str, ...] = NODE_POINTS
    api_points: tuple[str, ...] = API_POINTS
    worker_points: tuple[str, ...] = WORKER_POINTS
    calm: float = 4.0  # seconds without faults, at the beginning and at the end


def plan(seed: int, options: Options) -> list[Planned]:
    """The faults, in the order of their time."""
    return _Planner(seed, options).plan()


class _Planner:
    def __init__(self, seed: int, options: Options) -> None:
        self._chance = random.Random(f"faults {seed}")
        self._options = options
        self._busy: dict[str, float] = {}  # until when each victim is left alone
        self._until = options.seconds - options.calm

    def plan(self) -> list[Planned]:
        kinds = self._kinds()
        step = max(0.0, self._until - self._options.calm) / max(1, len(kinds))
        found: list[Planned] = []
        for number, kind in enumerate(kinds):
            at = self._options.calm + (number + self._chance.random()) * step
            found += self._place(kind, at)
        return sorted(found, key=lambda fault: (fault.at, fault.victim))

    def _kinds(self) -> list[str]:
        minutes = max(0.0, self._until - self._options.calm) / 60 * self._options.density
        kinds = [
            kind
            for kind, rate in sorted(self._options.rates.items())
            for _ in range(max(1, round(rate * minutes)) if rate > 0 else 0)
        ]
        self._chance.shuffle(kinds)
        return kinds

    def _place(self, kind: str, at: float) -> list[Planned]:
        """The fault, as soon after `at` as its victims allow. None where that is too late."""
        group = self._group(kind)
        count = self._count(kind, group)
        while at < self._until:
            free = self._free(kind, group, at)
            if len(free) >= count:
                victims = self._chance.sample(free, count)
                if kind == "kill" and group is self._options.workers:
                    victims += self._gateway_too()
                return self._strike(kind, victims, at, self._seconds(kind))
            count = 1
            at += 0.25
        return []

    def _group(self, kind: str) -> Sequence[str]:
        if kind in RESTARTS:
            return (POSTGRES,)
        if kind in _STRUCK:
            return (_STRUCK[kind],)
        if self._options.workers and self._of_workers():
            return self._options.workers
        share = _OF_API_CONNECTION if kind in CONNECTIONS else _OF_API[kind]
        if not self._options.nodes or (self._options.apis and self._chance.random() < share):
            return self._options.apis
        return self._options.nodes

    def _of_workers(self) -> bool:
        return self._chance.random() < _OF_WORKERS

    def _gateway_too(self) -> list[str]:
        apis = self._options.apis
        return [self._chance.choice(apis)] if apis and self._chance.random() < _BOTH else []

    def _count(self, kind: str, group: Sequence[str]) -> int:
        if kind != "kill" or group is self._options.apis:
            return 1
        luck = self._chance.random()
        wanted = len(group) if luck < _ALL else 2 if luck < _ALL + _TWO else 1
        return min(wanted, len(group))

    def _free(self, kind: str, group: Sequence[str], at: float) -> list[str]:
        free = [name for name in group if self._busy.get(name, 0.0) <= at]
        pointed = self._options.pointed
        if kind == "crash_point" and group is self._options.workers and pointed is not None:
            return [name for name in free if name in pointed]
        spared = 1 if kind in _DISABLES and len(group) > 1 else 0
        return free if len(free) > spared else []

    def _seconds(self, kind: str) -> float:
        lease, uniform = self._options.lease, self._chance.uniform
        match kind:
            case "kill":
                return uniform(0.2, 2.0)
            case "pause":
                return lease + uniform(1.0, 3.0)
            case "postgres_fast" | "postgres_immediate":
                return uniform(0.1, 1.0)
            case "redis_kill" | "rabbitmq_kill" | "kafka_kill":
                return uniform(0.1, 2.0)
            case "redis_pause" | "rabbitmq_pause" | "kafka_pause":
                return uniform(0.5, lease + 2.0)
            case "delay" | "redis_full" | "rabbitmq_full":
                return uniform(1.0, 4.0)
            case "black_hole":
                return uniform(0.5, lease + 1.5)
            case "crash_point" | "lost_answer":
                return 5.0  # at most, until it has struck
            case _:
                return 0.0

    def _strike(
        self, kind: str, victims: Sequence[str], at: float, seconds: float
    ) -> list[Planned]:
        amount, point = self._amount(kind), ""
        for victim in victims:
            self._busy[victim] = at + seconds + _STARTING.get(kind, _COMING_BACK)
        if kind == "crash_point":
            point = self._chance.choice(self._points(victims[0]))
        return [
            Planned(
                at=round(at, 3),
                kind=kind,
                victim=victim,
                seconds=round(seconds, 3),
                amount=amount,
                point=point,
            )
            for victim in victims
        ]

    def _points(self, victim: str) -> Sequence[str]:
        if victim in self._options.workers:
            return self._options.worker_points
        of_api = victim in self._options.apis
        return self._options.api_points if of_api else self._options.node_points

    def _amount(self, kind: str) -> float:
        if kind == "delay":
            return round(self._chance.uniform(0.05, 0.5), 3)
        return float(self._chance.randint(1, 3)) if kind == "lost_answer" else 0.0
