"""Gnomon and its peers in one run: they take turns, and the order turns with every round."""

from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import msgspec
from rich.progress import Progress

from bench.peers import measures
from bench.peers.measures import Entry, Sizes, Values
from bench.peers.port import Contender
from bench.peers.quantities import GNOMON, Entrant, Failure, Line, Match, quantities
from bench.rounds import turns
from bench.stage import Stage
from gnomon.bench.results import BenchError

KINDS = ("drain", "enqueue", "sustained", "idle", "herd")
TRIAL_TASKS = 10_000
NOTES = {
    "worker_processes": 1,
    "warm_up": f"{measures.WARM_UP} tasks before sustained, idle and due; none before a drain",
    "analyze_by_hand": "never",
    "payload": '{"n": <number>}',
    "handler": "notes its number and the time in memory",
    "batch": measures.BATCH,
}
_FAULTS = (BenchError, OSError, TimeoutError, asyncpg.PostgresError, msgspec.MsgspecError)


class Measuring(msgspec.Struct, frozen=True):
    """One measure that all take in turn."""

    name: str
    run: Callable[[Stage, Entry], Awaitable[Values]]
    tasks: int = 0  # that it needs

    def within(self, contender: Contender, least: int) -> bool:
        """Whether it is not too much for this contender. The least of its kind never is."""
        return contender.most is None or self.tasks <= max(contender.most, least)


def plan(sizes: Sizes, kinds: Sequence[str]) -> list[Measuring]:
    """What is measured, in this order."""
    found = []
    if "drain" in kinds:
        found += [_drain(count) for count in sizes.drains]
    if "sustained" in kinds:
        found.append(Measuring("sustained", lambda s, e: measures.sustained(s, e, sizes)))
    if "enqueue" in kinds:
        found.append(Measuring("enqueue", lambda s, e: measures.enqueue(s, e, sizes)))
    if "idle" in kinds:
        found.append(Measuring("idle", lambda s, e: measures.idle(s, e, sizes.idle)))
    if "herd" in kinds:
        found += [_herd(count) for count in sizes.herds]
    return found


def _drain(count: int) -> Measuring:
    async def run(stage: Stage, entry: Entry) -> Values:
        most = entry.contender.most
        return await measures.drain(stage, entry, count if most is None else min(count, most))

    return Measuring(f"drain_{count}", run, count)


def _herd(count: int) -> Measuring:
    return Measuring(f"herd_{count}", lambda s, e: measures.herd(s, e, count), count)


class Kept:
    """The values of all rounds."""

    def __init__(self, contenders: Sequence[str]) -> None:
        self._found: dict[str, list[Values]] = {name: [] for name in contenders}
        self.failures: list[Failure] = []

    def begin_round(self) -> None:
        for values in self._found.values():
            values.append({})

    def keep(self, contender: str, measuring: str, values: Values) -> None:
        """Costs are those of the last drain, which is the largest."""
        here = self._found[contender][-1]
        for name, value in values.items():
            cost = name.startswith(("cpu", "wal", "dead"))
            here[name if cost else f"{measuring}_{name}"] = value
        if "cpu_worker" in values and "cpu_server" in values:
            here["cpu_all"] = values["cpu_worker"] + values["cpu_server"]

    def lines(self, sizes: Sizes) -> list[Line]:
        """Those with any value."""
        lines = [
            Line(
                each, {who: [v.get(each.name) for v in found] for who, found in self._found.items()}
            )
            for each in quantities(sizes.drains, sizes.herds)
        ]
        return [line for line in lines if any(line.summary(who) for who in self._found)]


async def run(
    stage: Stage,
    entries: Sequence[Entry],
    absent: dict[str, str],
    sizes: Sizes,
    plan: Sequence[Measuring],
    rounds: int,
    progress: Progress,
) -> Match:
    """All measures of all contenders. What fails is named, and the rest goes on."""
    kept = Kept([entry.contender.name for entry in entries])
    bar = progress.add_task("", total=rounds * len(plan) * len(entries))
    for number, order in enumerate(turns(list(entries), rounds), 1):
        kept.begin_round()
        for each in plan:
            for entry in order:
                progress.update(
                    bar, description=f"round {number}: {each.name}, {entry.contender.title}"
                )
                await _one(stage, entry, each, number, kept, plan)
                progress.advance(bar)
    progress.update(bar, description="done")
    return Match(
        rounds=rounds,
        sizes=msgspec.to_builtins(sizes),
        notes=NOTES,
        entrants=[_entrant(entry) for entry in entries],
        absent=absent,
        failures=kept.failures,
        lines=kept.lines(sizes),
    )


async def _one(
    stage: Stage,
    entry: Entry,
    each: Measuring,
    number: int,
    kept: Kept,
    plan: Sequence[Measuring],
) -> None:
    contender = entry.contender
    kind = each.name.partition("_")[0]
    least = min((other.tasks for other in plan if other.name.startswith(kind)), default=0)
    if not each.within(contender, least):
        return
    try:
        kept.keep(contender.name, each.name, await each.run(stage, entry))
    except _FAULTS as error:
        why = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        kept.failures.append(Failure(contender.name, each.name, number, why[0][:300]))


async def tuned(stage: Stage, contenders: Sequence[Contender], progress: Progress) -> list[Entry]:
    """Each with those of its settings that drain a short queue the fastest here."""
    bar = progress.add_task("", total=sum(len(each.choices) for each in contenders))
    found = []
    for contender in contenders:
        rates: list[tuple[float, int]] = []
        for place, settings in enumerate(contender.choices):
            progress.update(bar, description=f"trying settings of {contender.title}")
            if len(contender.choices) > 1:
                rates.append((await _trial(stage, Entry(contender, settings)), -place))
            progress.advance(bar)
        best = -max(rates)[1] if rates else 0
        found.append(Entry(contender, contender.choices[best]))
    return found


async def _trial(stage: Stage, entry: Entry) -> float:
    tasks = min(TRIAL_TASKS, (entry.contender.most or TRIAL_TASKS) // 2)
    try:
        return (await measures.drain(stage, entry, tasks))["rate"]
    except _FAULTS:
        return 0.0


def _entrant(entry: Entry) -> Entrant:
    contender = entry.contender
    return Entrant(
        contender.name, contender.title, contender.version, entry.settings, contender.remark
    )


def own_faults(match: Match) -> list[str]:
    """What must not happen to Gnomon: a measure without a result, or a task that began early."""
    found = [f"{f.measure}: {f.why}" for f in match.failures if f.contender == GNOMON]
    found += [
        f"{line.quantity.name}: {early:.0f} tasks began early"
        for line in match.lines
        if line.quantity.name.endswith("_early") and (early := line.whole(GNOMON))
    ]
    return found
