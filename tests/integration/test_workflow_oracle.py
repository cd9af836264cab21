"""Random workflows on a real PostgreSQL against the pure model, a few of them: `make workflows`
plays hundreds."""

import random

import pytest
from proof.workflows.graphs import random_graph
from proof.workflows.held import HeldRun, play_held
from proof.workflows.kills import KilledRollback, Kills
from proof.workflows.rollbacks import RolledBackRun, play_rollback
from proof.workflows.runs import ComparedRun, play
from proof.workflows.spawned import SpawningRun, play_spawning
from tests.integration.support import joined

from gnomon.clock import SystemClock
from gnomon.store.postgres.database import Database


@pytest.mark.parametrize("settlers", [1, 2, 3])
async def test_postgres_goes_on_as_the_model_does(
    database: Database, clock: SystemClock, settlers: int
) -> None:
    incarnation = await joined(database)
    for seed in range(8):
        chance = random.Random(seed * 10 + settlers)
        run = ComparedRun(database, random_graph(chance, 25), clock, incarnation)
        assert await play(run, chance, settlers) > 0


@pytest.mark.parametrize("settlers", [1, 3])
async def test_nodes_that_wait_and_mapped_nodes_go_on_as_the_model_does(
    database: Database, clock: SystemClock, settlers: int
) -> None:
    incarnation = await joined(database)
    for seed in range(6):
        chance = random.Random(seed * 10 + settlers)
        graph = random_graph(chance, 20)
        run = HeldRun(database, graph, clock, incarnation).with_held(chance)
        assert await play_held(run, chance, settlers) < 300


@pytest.mark.parametrize("settlers", [1, 3])
async def test_a_rollback_undoes_each_completed_node_once_and_in_reverse(
    database: Database, clock: SystemClock, settlers: int
) -> None:
    incarnation, undone = await joined(database), 0
    for seed in range(8):
        chance = random.Random(seed * 10 + settlers)
        run = RolledBackRun(database, random_graph(chance, 25), clock, incarnation)
        undone += await play_rollback(run.with_compensations(chance), chance, settlers)
    assert undone > 20


@pytest.mark.parametrize("settlers", [1, 3])
async def test_what_nodes_spawn_is_waited_for_as_the_model_says(
    database: Database, clock: SystemClock, settlers: int
) -> None:
    incarnation = await joined(database)
    for seed in range(6):
        chance = random.Random(seed * 10 + settlers)
        run = SpawningRun(database, random_graph(chance, 15), clock, incarnation)
        assert await play_spawning(run, chance, settlers) < 400


async def test_a_rollback_goes_on_after_whoever_has_begun_it_was_killed(
    database: Database, database_dsn: str, clock: SystemClock
) -> None:
    """`make workflows` kills many more, in the middle of maps as well."""
    incarnation, chance = await joined(database), random.Random(3)
    run = KilledRollback(database, random_graph(chance, 10), clock, incarnation)
    run.kills = Kills(database_dsn, chance)
    await play_rollback(run.with_compensations(chance), chance, 2)
    assert run.kills.struck > 0
