"""Scenarios with remote workers."""

import asyncio
from pathlib import Path

import msgspec
from proof.campaigns.campaign import options_of
from proof.campaigns.foreign import LANGUAGES
from proof.campaigns.load import REMOTE
from proof.campaigns.progress import Progress
from proof.campaigns.setup import Setup
from proof.campaigns.stage import Found, Stage
from proof.campaigns.world import World


async def rolling_gateways(seed: int, folder: Path, progress: Progress) -> Found:
    """The gateways of remote workers are restarted one after the other, as in a deployment. That
    repeats nothing, and no worker needs a new session."""
    mix = msgspec.structs.replace(REMOTE, changed=0.0, doomed=0.0)
    setup = Setup(
        name="rolling-gateways", seed=seed, seconds=40.0, rate=30.0, faults=[], mix=mix,
        workers=3, languages=LANGUAGES, apis=2, nodes=1, lease=3.0,
    )  # fmt: skip
    async with World(folder, options_of(setup)) as world:
        stage = Stage(setup, world, progress)

        async def happening() -> None:
            await asyncio.sleep(6.0)
            for turn in range(4):
                await _restart_gateway(world, turn % 2)

        result = await stage.play(happening)
        sessions = {name: _sessions(world, name) for name in world.worker_names}
    counts = result.judgement.counts
    repeated = counts["duplicate_starts_explained"] + counts["duplicate_starts_unexplained"]
    return Found(
        result=result,
        held={
            "nothing is lost or otherwise wrong": not result.judgement.wrong,
            f"nothing ran twice ({repeated})": repeated == 0,
            f"each worker kept its session ({sessions})": set(sessions.values()) == {1},
        },
    )


async def _restart_gateway(world: World, number: int) -> None:
    """As a load balancer sees it: new connections go to the other one, then this one stops."""
    name, other = world.api_names[number], world.api_names[1 - number]
    world.leaving.add(name)
    for worker in world.worker_names:
        world.lead(worker, other)
    world.members[name].terminate()
    while world.alive(name):
        await asyncio.sleep(0.05)
    await world.until_serving(name)
    world.leaving.discard(name)


def _sessions(world: World, name: str) -> int:
    log = world.members[name].log.read_bytes()
    return log.count(b'"worker started"') + log.count(b"worker started at")
