"""When the sessions of remote workers can have been lost, from the faults and from the gateways
that the workers were led to. Pure.

What runs on a remote worker is started elsewhere only when its session is lost, and that only when
no beat came through for a whole lease. A beat comes every third of a lease, so a shorter silence
loses nothing: a cut connection and a lost answer are none at all, and a gateway that dies is none
for longer than its workers are led to it. Workers behind a broker find another gateway by
themselves: one that is away, or cut off from PostgreSQL, is no silence for them. Only where all
gateways are, at the same time, can nobody renew a lease, and it ends if that lasts as long as a
lease less what has gone by since its last renewal. While PostgreSQL is away nobody is declared
dead, nor for a lease after it: it only makes a silence of another kind longer.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from proof.campaigns.history import Call, Fault, Route

_DEADLY = ("kill", "crash_point")
_SILENT = ("pause", "black_hole", "delay")  # faults of a worker through which no beat may come
# Faults of a gateway, for its workers; and of a broker, for those behind it.
_AWAY = (
    "kill", "crash_point", "pause", "black_hole", "redis_kill", "redis_pause", "rabbitmq_kill",
    "rabbitmq_pause", "rabbitmq_full", "kafka_kill", "kafka_pause",
)  # fmt: skip
_OF_GATEWAY = ("kill", "crash_point", "pause", "black_hole")
_POSTGRES = ("postgres_fast", "postgres_immediate")
_SEEN_WITHIN = 0.1  # seconds: a death is seen a little after it
REMOTE = "worker"  # how the names of remote workers begin


class Ways(NamedTuple):
    """How remote workers came to gateways."""

    routes: Sequence[Route]
    gateways: Sequence[str]  # all of them, where workers find one by themselves


NO_WAYS = Ways((), ())


class Cause(NamedTuple):
    """Why a start may have been repeated."""

    kinds: str  # of the faults
    words: str


class Silence(NamedTuple):
    """A time in which no beat of a worker need have come through."""

    begin: float
    end: float
    faults: tuple[Fault, ...]  # that made it

    @property
    def of_postgres(self) -> bool:
        """And of nothing else."""
        return all(fault.kind in _POSTGRES for fault in self.faults)

    @property
    def cause(self) -> Cause:
        victims = dict.fromkeys(f"{fault.kind} of {fault.victim}" for fault in self.faults)
        words = f"{', '.join(victims)} from {self.begin:.3f} to {self.end:.3f}"
        kinds = {fault.kind for fault in self.faults if fault.kind not in _POSTGRES}
        return Cause(" and ".join(sorted(kinds)), words)


class SessionLosses:
    """Why what ran on a remote worker may have been started again."""

    def __init__(self, faults: Sequence[Fault], ways: Ways, lease: float, aftermath: float) -> None:
        self._lease = lease
        self._patience = lease + aftermath
        self._deaths: dict[str, list[Fault]] = {}
        self._silences: dict[str, list[Silence]] = {}
        routes, remote = ways.routes, [f for f in faults if not f.victim.startswith("node")]
        unserved = list(_unserved(remote, ways.gateways, lease))
        for worker in {each.worker for each in routes} | {
            f.victim for f in faults if f.victim.startswith(REMOTE)
        }:
            own = [f for f in remote if f.victim == worker or not f.victim.startswith(REMOTE)]
            self._deaths[worker] = [f for f in own if f.victim == worker and f.kind in _DEADLY]
            led = [each for each in routes if each.worker == worker]
            found = [*_silences(worker, own, led), *unserved]
            self._silences[worker] = list(_merged(found, lease / 3))
        self._troubles = sorted(remote, key=lambda fault: fault.at)

    def explains(self, call: Call, later_at: float) -> Cause | None:
        """Why a call may have been lost before another one began at this time, if it may."""
        worker = call.node or ""
        unheard_until = self._unheard_until(call)
        for death in self._deaths.get(worker, ()):
            began_before = call.began_at <= death.at + _SEEN_WITHIN
            if began_before and self._lost_by(death.at, later_at) and death.at <= unheard_until:
                return Cause(death.kind, f"{death.kind} of {worker} at {death.at:.3f}")
        for silence in self._silences.get(worker, ()):
            # It starts nothing that it has no lease for.
            began_before = call.began_at <= max(silence.begin + self._lease, silence.end)
            long = silence.end - silence.begin >= self._lease / 3 and not silence.of_postgres
            lost = long and self._lost_by(silence.begin, later_at)
            if began_before and lost and silence.begin <= unheard_until:
                return silence.cause
        return None

    def _lost_by(self, silent_since: float, later_at: float) -> bool:
        """Whether a lease can have ended: its last beat may have come a while before."""
        return later_at >= silent_since + self._lease / 2

    def _unheard_until(self, call: Call) -> float:
        """How long it may take until its report is written, with all troubles on the way."""
        if call.ended_at is None:
            return math.inf
        until = call.ended_at + self._patience
        for fault in self._troubles:
            own = fault.victim == call.node or not fault.victim.startswith(REMOTE)
            if own and fault.at <= until and fault.healed_at >= call.began_at:
                until = max(until, fault.healed_at + self._patience)
        return until


def _silences(worker: str, faults: Sequence[Fault], led: Sequence[Route]) -> Iterator[Silence]:
    for fault in faults:
        if fault.kind in _POSTGRES or (fault.victim == worker and fault.kind in _SILENT):
            yield Silence(fault.at, fault.healed_at, (fault,))
        elif fault.kind in _AWAY:
            for begin, end in _times_at(led, fault.victim):
                begin, end = max(begin, fault.at), min(end, fault.healed_at)
                if begin < end:
                    yield Silence(begin, end, (fault,))


def _unserved(faults: Sequence[Fault], gateways: Sequence[str], lease: float) -> Iterator[Silence]:
    """When every gateway was away, for so long that the lease of a session that was renewed a
    third of it before has ended."""
    if not gateways:
        return
    away = [[f for f in faults if f.victim == g and f.kind in _OF_GATEWAY] for g in gateways]
    for together in itertools.product(*away):
        begin = max(fault.at for fault in together)
        end = min(fault.healed_at for fault in together)
        if end - begin >= lease - lease / 3:
            yield Silence(begin, end, together)


def _times_at(led: Sequence[Route], gateway: str) -> Iterator[tuple[float, float]]:
    """When a worker was led to a gateway."""
    ends = [each.at for each in led[1:]] + [math.inf]
    for route, end in zip(led, ends, strict=False):
        if route.gateway == gateway:
            yield route.at, end


def _merged(silences: Iterable[Silence], gap: float) -> Iterator[Silence]:
    """Those between which no beat need have come are one."""
    last: Silence | None = None
    for each in sorted(silences, key=lambda silence: silence.begin):
        if last is not None and each.begin <= last.end + gap:
            last = Silence(last.begin, max(last.end, each.end), last.faults + each.faults)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last
