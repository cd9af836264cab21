"""One campaign from its beginning to its verdict: a world, a load, faults as planned, and then
peace, until everything that was asked for has come to its end or the patience is over."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import asyncpg
from proof.campaigns.faults import FAMILIES
from proof.campaigns.history import History
from proof.campaigns.injector import Injector
from proof.campaigns.load import Load, Places
from proof.campaigns.progress import Progress
from proof.campaigns.setup import Result, Setup, judged
from proof.campaigns.world import World
from proof.campaigns.world_options import Options

_LOOK = 0.5  # seconds between looks at how it goes
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


async def run(setup: Setup, progress: Progress, folder: Path | None = None) -> Result:
    """Do it. Bounded in time, whatever is broken. If it does not end well, what the processes said
    is left in the folder."""
    with tempfile.TemporaryDirectory(prefix="gnomon-proof-") as name:
        try:
            async with World(Path(name), options_of(setup)) as world:
                history = await Campaign(setup, world, progress).run()
        except BaseException:
            _keep_logs(Path(name), folder)
            raise
        result = judged(setup, history)
        if result.verdict != "good":
            _keep_logs(Path(name), folder)
    return result


def _keep_logs(world: Path, folder: Path | None) -> None:
    if folder is not None:
        for log in world.glob("*.log"):
            shutil.copy(log, folder)


def options_of(setup: Setup) -> Options:
    return Options(
        nodes=setup.nodes,
        apis=setup.apis,
        workers=setup.workers,
        languages=setup.languages,
        pipe=setup.pipe,
        slots=setup.slots,
        lease=setup.lease,
        mutant=setup.mutant,
        downtime=1.0,
    )


class Campaign:
    """What happens in a world."""

    def __init__(self, setup: Setup, world: World, progress: Progress) -> None:
        self._setup = setup
        self._world = world
        self._progress = progress
        self.to_serve = (*world.node_names, *world.api_names, *world.worker_names)  # in the end
        places = Places(world.api_urls, world.dsn, world.observer_url, world.folder)
        self.load = Load(places, seed=setup.seed, rate=setup.rate, mix=setup.mix)

    async def run(self) -> History:
        await self._under_load()
        await self._heal()
        await self._settle()
        return await self._world.history(self.load)

    async def _under_load(self) -> None:
        stop = asyncio.Event()
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.load.run(stop))
            watching = group.create_task(self._watch("under load", began))
            await Injector(self._world).run(self._setup.planned(), began)
            await asyncio.sleep(max(0.0, began + self._setup.seconds - time.monotonic()))
            stop.set()
            watching.cancel()

    async def _heal(self) -> None:
        """Everyone is back; nothing is in anyone's way."""
        for proxy in self._world.proxies.values():
            proxy.delay(0)
            proxy.lose_answers(0)
            proxy.let_through()
        for name in self.to_serve:
            self._world.disarm(name)
            self._world.go_on(name)
        if self._world.broker is not None:
            await self._world.broker.heal()
        await self._world.until_serving(*self.to_serve)

    async def _settle(self) -> None:
        """Wait until nothing is left to do. What is left after that is stuck."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self._setup.settle_seconds:
            with contextlib.suppress(*_AWAY):
                left = await self._world.unsettled()
                self._progress.tell("settling", {"for": f"{passed:.0f} s", "left": left})
                if left == 0:
                    return
            await asyncio.sleep(_LOOK)

    async def _watch(self, stage: str, began: float) -> None:
        while True:
            passed = time.monotonic() - began
            struck = Counter(f.kind for f in self._world.faults if f.took_effect)
            families = {
                name.replace("_", " "): sum(struck[kind] for kind in kinds)
                for name, kinds in FAMILIES.items()
            }
            facts = {"at": f"{passed:.0f} s", **self.load.progress, **families}
            if self._world.audit.sightings:
                facts["sightings"] = len(self._world.audit.sightings)
            self._progress.tell(stage, facts)
            await asyncio.sleep(_LOOK)
