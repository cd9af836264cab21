"""Programs wait for results while everything that makes them is killed, paused and restarted: every
result arrives or its failure does, and none is wrong."""

import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from proof.campaigns.answers import right
from proof.campaigns.member import Member, environment
from proof.campaigns.waiter import Heard
from proof.campaigns.world import World
from proof.campaigns.world_options import Options

PROGRAMS = 2
_FAULTS = ("kill", "kill", "pause", "restart", "api")
_END_SECONDS = 120.0  # for what is left when the load ends
_APART = 1_000_000  # between the numbers of two programs


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the programs were told, held against what they should have been."""

    asked: int
    results: int
    failures: int
    faults: Counter[str]
    slowest: float
    wrong: list[str]

    def readable(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        passed = "FAILED" if self.wrong else "PASSED"
        told = f"{self.results} results, {self.failures} failures"
        lines = [
            f"{passed}: {self.asked} tasks, {told}, the slowest after {self.slowest:.1f} s",
            f"  faults: {faults}",
            *(f"  wrong: {each}" for each in self.wrong[:20]),
        ]
        return "\n".join(lines)


async def run(seed: int, seconds: float, rate: float, plan: Sequence[str] = ()) -> Verdict:
    """Load from several programs, and a fault every few seconds: those of the plan, or any."""
    with tempfile.TemporaryDirectory(prefix="gnomon-proof-") as folder:
        return await _played(Path(folder), random.Random(seed), seconds, rate, plan)


async def _played(
    folder: Path, chance: random.Random, seconds: float, rate: float, plan: Sequence[str]
) -> Verdict:
    struck: Counter[str] = Counter()
    kinds = iter(plan) if plan else iter(lambda: chance.choice(_FAULTS), None)
    async with World(folder, Options(nodes=3, slots=32)) as world:
        programs = [
            _program(world, number, seconds, rate / PROGRAMS) for number in range(1, PROGRAMS + 1)
        ]
        until = time.monotonic() + seconds
        for kind in kinds:
            await asyncio.sleep(chance.uniform(1.0, 3.0))
            if time.monotonic() >= until and not plan:
                break
            await _strike(world, kind, chance)
            struck[kind] += 1
        await _over(programs)
        lines = {each.name: each.log.read_text() for each in programs}
        for each in programs:
            each.kill()
    return judge(lines, struck)


def _program(world: World, number: int, seconds: float, rate: float) -> Member:
    """A program in a process of its own, which knows the API's address and nothing else."""
    environ = environment(world.folder, url=world.api_urls[0])
    arguments = (str(os.getpid()), str(number * _APART), str(seconds), str(rate))
    command = ["-m", "proof.campaigns.waiter", *arguments]
    program = Member(f"program-{number}", world.folder, command, environ)
    program.start()
    return program


async def _strike(world: World, kind: str, chance: random.Random) -> None:
    node = chance.choice(world.node_names)
    match kind:
        case "kill":
            if world.alive(node):
                world.kill(node)
        case "pause":
            if world.serving(node):
                world.pause(node)
                await asyncio.sleep(world.options.lease * 1.5)
                world.go_on(node)
        case "restart":
            await world.restart_postgres(immediate=True, down=0.3)
        case "api":
            api = world.api_names[0]
            if world.alive(api):
                world.kill(api)


async def _over(programs: list[Member]) -> None:
    until = time.monotonic() + _END_SECONDS
    while any(program.alive for program in programs) and time.monotonic() < until:
        await asyncio.sleep(0.1)


def judge(lines: dict[str, str], struck: Counter[str]) -> Verdict:
    """By the words of the programs alone."""
    heard: list[Heard] = []
    wrong: list[str] = []
    asked = 0
    for program, text in lines.items():
        told = [msgspec.json.decode(line) for line in text.splitlines() if line.startswith("{")]
        ends = [each["acknowledged"] for each in told if "acknowledged" in each]
        own = [msgspec.convert(each, Heard) for each in told if "n" in each]
        heard += own
        asked += sum(ends)
        if len(ends) != 1:
            wrong.append(f"{program} has not ended: {text[-500:]}")
        elif len({each.n for each in own}) != ends[0] or len(own) != ends[0]:
            wrong.append(f"{program} has asked for {ends[0]} and heard of {len(own)}")
    wrong += [fault for each in heard for fault in _faults_of(each)]
    return Verdict(
        asked=asked,
        results=sum(each.answer is not None for each in heard),
        failures=sum(each.failure is not None for each in heard),
        faults=struck,
        slowest=max((each.seconds for each in heard), default=0.0),
        wrong=wrong,
    )


def _faults_of(heard: Heard) -> list[str]:
    """What is wrong with what a program was told of a task."""
    what = f"{heard.kind} {heard.n}"
    if heard.wrong is not None:
        return [f"{what}: {heard.wrong}"]
    if heard.kind == "never":
        if heard.failure != f"Doomed: {heard.n}" or "in never" not in (heard.traceback or ""):
            return [f"{what}: not its own failure: {heard.failure}; {heard.answer}"]
    elif heard.failure is not None:
        return [f"{what}: failed, which it never does for good: {heard.failure}"]
    elif heard.answer != msgspec.to_builtins(right(heard.n)):
        return [f"{what}: a wrong answer: {heard.answer}"]
    return []


def main(seed: int, seconds: float, rate: float) -> int:
    verdict = asyncio.run(run(seed, seconds, rate))
    sys.stdout.write(verdict.readable() + "\n")
    return 1 if verdict.wrong else 0
