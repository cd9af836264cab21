"""Runs whose steps are taken by processes that are killed in the middle of a rollback, of the
expansion of a list, or of a turn: whoever comes next goes on as if they had not been."""

import asyncio
import random
import signal
import sys
from uuid import UUID

from proof.workflows.held import HeldRun
from proof.workflows.rollbacks import RolledBackRun

from gnomon.model.outcomes.verdict import Verdict

# Statements in transactions of the chore; what comes before them in these is lost with the process.
_MAP = ("hold_map", "turn_values", "begin_map", "bind_elements", "map_outputs", "complete_nodes")
_ROLLBACK = ("lock_rollback", "unended_nodes", "nodes_to_compensate", "bind_compensations")
_TO_MAP = """
    SELECT EXISTS (
        SELECT FROM gnomon.workflow_node WHERE run_id = $1 AND step = 1 AND kind = 2
    )
"""
_TO_ROLL_BACK = """
    SELECT EXISTS (
        SELECT FROM gnomon.workflow_run WHERE id = $1 AND state = 2 AND NOT compensated
    )
"""


class Kills:
    """Starts processes that kill themselves, and counts them."""

    def __init__(self, dsn: str, chance: random.Random) -> None:
        self._dsn = dsn
        self._chance = chance
        self.struck = 0

    async def strike(self, names: tuple[str, ...]) -> None:
        name, times = self._chance.choice(names), self._chance.choice((1, 1, 1, 2))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "proof.workflows.killed", self._dsn, name, str(times)
        )
        code = await process.wait()
        if code not in (0, -signal.SIGKILL):
            raise AssertionError(f"the process that was to die at {name} ended with {code}")
        self.struck += code != 0


class KilledHeldRun(HeldRun):
    """Waits and maps."""

    kills: Kills

    async def settle_tasks(
        self,
        verdicts: dict[UUID, Verdict],
        settlers: int,
        chance: random.Random,
        most: int = 0,
    ) -> None:
        await super().settle_tasks(verdicts, settlers, chance, most)
        async with self._database.connection() as connection:
            if await connection.fetchval(_TO_MAP, self.run_id):
                await self.kills.strike(_MAP)


class KilledRollback(RolledBackRun):
    """Rollbacks."""

    kills: Kills

    async def take_steps(self) -> None:
        for _ in range(2):  # the next one may be killed as well
            async with self._database.connection() as connection:
                if await connection.fetchval(_TO_ROLL_BACK, self.run_id):
                    await self.kills.strike(_ROLLBACK)
        await super().take_steps()
