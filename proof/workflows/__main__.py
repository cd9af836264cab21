"""Plays many random workflows: `make workflows`, or `python -m proof.workflows 500`."""

import asyncio
import random
import sys
import tempfile
from pathlib import Path
from uuid import UUID

from proof.workflows.alone import play_alone
from proof.workflows.graphs import random_graph
from proof.workflows.held import HeldRun, play_held
from proof.workflows.kills import KilledHeldRun, KilledRollback, Kills
from proof.workflows.planted import PLANTED, found_after
from proof.workflows.rollbacks import RolledBackRun, play_rollback
from proof.workflows.runs import ComparedRun, play
from proof.workflows.spawned import SpawningRun, play_spawning

from gnomon.clock import SystemClock, new_incarnation
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.postgres import migrate
from gnomon.store.postgres.database import Database, connect
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.retention import partitions

_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _play_alone(number: int) -> None:
    events = sum(play_alone(random.Random(seed)) for seed in range(number))
    _tell(f"{number} workflows on the model alone, {events} events: nothing is broken")


async def _find_planted(database: Database, incarnation: UUID) -> bool:
    """Gives whether all of them were found."""
    found = True
    for bug in PLANTED:
        after = await found_after(bug, database, SystemClock(), incarnation)
        told = "NOT FOUND" if after is None else f"found, by graph {after}"
        _tell(f"planted: {bug.trap}: {told}")
        found = found and after is not None
    return found


async def _play_killed(database: Database, incarnation: UUID, dsn: str, number: int) -> None:
    """Some of them, with processes that die in the middle of their steps."""
    clock, kills = SystemClock(), Kills(dsn, random.Random(number))
    for seed in range(number):
        chance = random.Random(seed)
        held = KilledHeldRun(database, random_graph(chance, 12), clock, incarnation)
        held.kills = kills
        await play_held(held.with_held(chance), chance, 1 + seed % 3)
        back = KilledRollback(database, random_graph(chance, 20), clock, incarnation)
        back.kills = kills
        await play_rollback(back.with_compensations(chance), chance, 1 + seed % 3)
    _tell(f"{2 * number} whose chore was killed in the middle, {kills.struck} times: they agree")


async def _play_all(dsn: str, number: int | None) -> None:
    connection = await connect(dsn)
    await migrate.up(connection)
    today = await connection.fetchval("SELECT (gnomon.now() AT TIME ZONE 'UTC')::date")
    await partitions.make(connection, today)
    await connection.close()
    database, clock, incarnation = Database(dsn, 8), SystemClock(), new_incarnation()
    await database.open(quiet=True)
    await PostgresRoster(database).join(incarnation, "proof", 10, 86_400.0)
    if number is None:
        if not await _find_planted(database, incarnation):
            raise SystemExit(1)
        return
    events = 0
    for seed in range(number):
        chance = random.Random(seed)
        run = ComparedRun(database, random_graph(chance), clock, incarnation)
        events += await play(run, chance, settlers=1 + seed % 3)
    _tell(f"{number} workflows, {events} events: PostgreSQL and the model agree")
    held = 0
    for seed in range(number):
        chance = random.Random(seed)
        with_waits = HeldRun(database, random_graph(chance), clock, incarnation).with_held(chance)
        held += await play_held(with_waits, chance, 1 + seed % 3)
    _tell(f"{number} with waits and maps, {held} events: they agree")
    spawned = 0
    for seed in range(number):
        chance = random.Random(seed)
        spawning = SpawningRun(database, random_graph(chance, 30), clock, incarnation)
        spawned += await play_spawning(spawning, chance, 1 + seed % 3)
    _tell(f"{number} with nodes that spawn others, {spawned} events: they agree")
    undone = 0
    for seed in range(number // 2):
        chance = random.Random(seed)
        back = RolledBackRun(database, random_graph(chance), clock, incarnation)
        undone += await play_rollback(back.with_compensations(chance), chance, 1 + seed % 3)
    _tell(f"{number // 2} rollbacks, {undone} nodes undone once, and in reverse")
    await _play_killed(database, incarnation, dsn, max(1, number // 25))
    await database.close()


def main() -> None:
    asked = sys.argv[1] if len(sys.argv) > 1 else "500"
    number = None if asked == "planted" else int(asked)
    if number is not None:
        _play_alone(20 * number)
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder) / "data", settings_overrides=_FAST)
        server.start()
        try:
            asyncio.run(_play_all(server.dsn, number))
        finally:
            server.stop(mode="immediate")


if __name__ == "__main__":
    main()
