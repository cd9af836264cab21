"""Does what was planned, and says what came of it: when it struck, when all was whole again, and
whether it took effect. A fault that found its victim already down has not."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from proof.campaigns.broker import Broker
from proof.campaigns.faults import PIPE_RATES, Planned
from proof.campaigns.history import Fault
from proof.campaigns.proxy import Proxy
from proof.campaigns.world import World

_STEP = 0.02
_COME_BACK = 60.0  # seconds until a process that was started must serve


class Injector:
    """Strikes at the processes of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._broker_turn = asyncio.Lock()  # it may take long to start, or to be told
        self._striking: dict[str, Callable[[Planned], Awaitable[tuple[bool, str]]]] = {
            "kill": self._kill,
            "crash_point": self._crash,
            "pause": self._pause,
            "postgres_fast": self._restart,
            "postgres_immediate": self._restart,
            "cut": self._cut,
            "delay": self._delay,
            "black_hole": self._black_hole,
            "lost_answer": self._lose_answers,
        }
        for pipe in PIPE_RATES:
            self._striking |= {
                f"{pipe}_kill": self._kill_broker,
                f"{pipe}_pause": self._pause_broker,
                f"{pipe}_cut": self._cut_broker,
                f"{pipe}_full": self._fill_broker,
                f"{pipe}_grow": self._fill_broker,
            }

    async def run(self, plan: list[Planned], began: float) -> None:
        """All of it, each at its time (monotonic, like `began`)."""
        async with asyncio.TaskGroup() as group:
            for planned in plan:
                await asyncio.sleep(max(0.0, began + planned.at - time.monotonic()))
                group.create_task(self.strike(planned))

    async def strike(self, planned: Planned) -> None:
        if planned.victim not in PIPE_RATES:
            await self._strike(planned)
            return
        async with self._broker_turn:
            await self._strike(planned)

    async def _strike(self, planned: Planned) -> None:
        at = time.time()
        took_effect, detail = await self._striking[planned.kind](planned)
        if planned.kind == "crash_point" and took_effect:
            at = self._died_at(planned.victim, at)
        self._world.faults.append(
            Fault(
                kind=planned.kind,
                victim=planned.victim,
                at=at,
                healed_at=time.time(),
                took_effect=took_effect,
                detail=detail,
            )
        )

    def _died_at(self, name: str, since: float) -> float:
        """When it came to the point at which it was to crash."""
        deaths = (d.at for d in self._world.deaths if d.process == name and d.at >= since)
        return min(deaths, default=since)

    # Processes

    async def _kill(self, planned: Planned) -> tuple[bool, str]:
        name = planned.victim
        serving = self._world.serving(name)
        self._world.kill(name)
        await asyncio.sleep(planned.seconds)
        await self._bring_back(name)
        return serving, f"down for {planned.seconds:.1f} s"

    async def _crash(self, planned: Planned) -> tuple[bool, str]:
        name = planned.victim
        if not self._world.serving(name):
            return False, f"{planned.point}: was not serving"
        self._world.crash_at(name, planned.point)
        died = await self._within(planned.seconds, lambda: not self._world.alive(name))
        if not died:
            died = not self._world.disarm(name)
        if died:
            await self._within(5.0, lambda: not self._world.alive(name))
            await self._bring_back(name)
        return died, planned.point

    async def _pause(self, planned: Planned) -> tuple[bool, str]:
        name = planned.victim
        serving = self._world.serving(name)
        if not serving:
            return False, "was not serving"
        self._world.pause(name)
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            self._world.go_on(name)
        return True, f"for {planned.seconds:.1f} s"

    async def _bring_back(self, name: str) -> None:
        if not self._world.alive(name):  # or whoever tends the world was first
            self._world.start(name)
        await self._within(_COME_BACK, lambda: self._world.serving(name))

    # PostgreSQL

    async def _restart(self, planned: Planned) -> tuple[bool, str]:
        immediate = planned.kind == "postgres_immediate"
        await self._world.restart_postgres(immediate, planned.seconds)
        return True, f"down for {planned.seconds:.1f} s"

    # The broker of a pipe

    @property
    def _broker(self) -> Broker:
        assert self._world.broker is not None, "this world was made without a pipe"
        return self._world.broker

    async def _kill_broker(self, planned: Planned) -> tuple[bool, str]:
        await self._broker.restart(planned.seconds)
        return True, f"down for {planned.seconds:.1f} s"

    async def _pause_broker(self, planned: Planned) -> tuple[bool, str]:
        self._broker.pause()
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            await self._broker.heal()
        return True, f"for {planned.seconds:.1f} s"

    async def _cut_broker(self, _planned: Planned) -> tuple[bool, str]:
        count = self._broker.cut()
        return count > 0, f"{count} connections"

    async def _fill_broker(self, planned: Planned) -> tuple[bool, str]:
        await self._broker.fill(full=True)
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            await self._broker.fill(full=False)
        return True, f"for {planned.seconds:.1f} s"

    # Connections

    def _proxy(self, planned: Planned) -> Proxy:
        return self._world.proxies[planned.victim]

    async def _cut(self, planned: Planned) -> tuple[bool, str]:
        count = self._proxy(planned).cut()
        return count > 0, f"{count} connections"

    async def _delay(self, planned: Planned) -> tuple[bool, str]:
        proxy = self._proxy(planned)
        before = proxy.delayed
        proxy.delay(planned.amount)
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            proxy.delay(0)
        count = proxy.delayed - before
        return count > 0, f"{count} pieces, {planned.amount:.2f} s each"

    async def _black_hole(self, planned: Planned) -> tuple[bool, str]:
        proxy = self._proxy(planned)
        before = proxy.swallowed
        proxy.black_hole()
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            proxy.let_through()
        return proxy.swallowed > before, f"for {planned.seconds:.1f} s"

    async def _lose_answers(self, planned: Planned) -> tuple[bool, str]:
        proxy, wanted = self._proxy(planned), int(planned.amount)
        before = proxy.lost_answers
        proxy.lose_answers(wanted, planned.point)
        await self._within(planned.seconds, lambda: proxy.lost_answers - before >= wanted)
        proxy.lose_answers(0)
        count = proxy.lost_answers - before
        return count > 0, f"{count} answers {planned.point}".rstrip()

    async def _within(self, seconds: float, holds: Callable[[], bool]) -> bool:
        until = time.monotonic() + seconds
        while not holds():
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(_STEP)
        return True
