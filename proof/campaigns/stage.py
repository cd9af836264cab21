"""A world with a campaign in it whose only fault is done by hand, and how that ended."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
from proof.campaigns import report
from proof.campaigns.campaign import Campaign
from proof.campaigns.history import Fault
from proof.campaigns.progress import Progress
from proof.campaigns.setup import Result, Setup, judged
from proof.campaigns.world import World


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario ended: what was asked of it, and whether it held."""

    result: Result
    held: dict[str, bool]
    notes: list[str] = []

    @property
    def passed(self) -> bool:
        return all(self.held.values())

    def readable(self) -> str:
        lines = [f"{'PASSED' if self.passed else 'FAILED'}: {self.result.setup.name}"]
        lines += [f"  {'yes' if holds else 'NO '}  {what}" for what, holds in self.held.items()]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join([*lines, report.summary(self.result)])


class Stage:
    """A world with a campaign in it whose only fault is done by hand."""

    def __init__(self, setup: Setup, world: World, progress: Progress) -> None:
        self.setup = setup
        self.world = world
        self.campaign = Campaign(setup, world, progress)

    @property
    def acknowledged(self) -> int:
        return self.campaign.load.progress["acknowledged"]

    async def play(self, happening: Callable[[], Awaitable[None]]) -> Result:
        """Load, the happening in the middle of it, and the verdict."""
        async with asyncio.TaskGroup() as group:
            history = group.create_task(self.campaign.run())
            await happening()
        return judged(self.setup, history.result())

    def broken(self, kind: str, victim: str, at: float, detail: str = "") -> None:
        self.world.faults.append(
            Fault(
                kind=kind,
                victim=victim,
                at=at,
                healed_at=time.time(),
                took_effect=True,
                detail=detail,
            )
        )
