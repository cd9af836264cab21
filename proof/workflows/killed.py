"""A process that takes the steps of workflows, and kills itself in the middle of one: before the
n-th time that it sends a statement of this name. `python -m proof.workflows.killed DSN NAME N`.

Next: `kills.py` starts it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable

from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.workflows import maps, rollback, spawning, turns, workflow_steps
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps


def _deadly(name: str, times: int) -> Callable[[str], str]:
    left = times

    def found(asked: str) -> str:
        nonlocal left
        left -= asked == name
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return query(asked)

    return found


async def _take(dsn: str) -> None:
    database = Database(dsn, 2)
    await database.open(quiet=True)
    steps = PostgresWorkflowSteps(database)
    while (await steps.take()).steps:
        pass
    await database.close()


def main() -> None:
    dsn, name, times = sys.argv[1:]
    deadly = _deadly(name, int(times))
    for module in (maps, rollback, spawning, turns, workflow_steps):
        module.query = deadly  # type: ignore[attr-defined] # what they import
    asyncio.run(_take(dsn))


if __name__ == "__main__":
    main()
