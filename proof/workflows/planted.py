"""Planted bugs: the gate and statements of the chore, each with one of the traps of workflows. All
of them must be found by the comparison with the model: `python -m proof.workflows planted`."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import UUID

from proof.workflows.graphs import random_graph
from proof.workflows.held import HeldRun, play_held
from proof.workflows.runs import ComparedRun, play
from proof.workflows.spawned import SpawningRun, play_spawning

from gnomon.clock import Clock
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query, statements

MOST_GRAPHS = 40  # until a planted bug must have been found
_PATIENCE = 20.0  # seconds for a graph: a run that never comes to rest was noticed, too


class PlantedBug(NamedTuple):
    """A change of a statement, or of a function where that is not named: of the gate, mostly."""

    trap: str
    right: str
    wrong: str
    statement: str | None = None
    function: str = "pass_nodes"


PLANTED = (
    PlantedBug(
        "asks whether an edge is left, instead of counting",
        "WHEN v_node.rule = 0 THEN v_waits = 0 AND v_succeeded = v_node.parents",
        """WHEN v_node.rule = 0 THEN v_failed = 0 AND NOT EXISTS (
            SELECT FROM gnomon.workflow_edge AS x WHERE x.child_id = v_node.task_id)""",
    ),
    PlantedBug(
        "counts from what another settlement is changing",
        "FOR NO KEY UPDATE\n        ) AS n",
        ") AS n",
    ),
    PlantedBug(
        "an edge is used more than once",
        "DELETE FROM gnomon.workflow_edge AS x\n            USING picked AS p\n            WHERE",
        "UPDATE gnomon.workflow_edge AS x SET at_death = x.at_death\n            FROM picked AS p\n"
        "            WHERE",
    ),
    PlantedBug(
        "a dead letter uses all of its edges",
        "AND (e.becomes < 5 OR x.at_death)",
        "AND (e.becomes < 5 OR true)",
    ),
    PlantedBug(
        "a node that ended before its turn does not stand for those that it waits for",
        "WHERE NOT e.early\n            LIMIT",
        "WHERE true\n            LIMIT",
    ),
    PlantedBug(
        "a skipped node counts as succeeded",
        "count(*) FILTER (WHERE u.becomes = 1) AS succeeded",
        "count(*) FILTER (WHERE u.becomes IN (1, 3)) AS succeeded",
    ),
    PlantedBug(
        "a dead letter does not count as failed",
        "count(*) FILTER (WHERE u.becomes IN (2, 5)) AS failed",
        "count(*) FILTER (WHERE u.becomes = 2) AS failed",
    ),
    PlantedBug(
        "a mapped node starts its children with its first element",
        "v_node.elements IS NOT NULL THEN v_waits = 0",
        "v_node.elements IS NOT NULL THEN true",
    ),
    PlantedBug(
        "a mapped node does not wait for its elements",
        "FROM gone) + $4::integer",
        "FROM gone) + 1",
        "begin_map",
    ),
    PlantedBug(
        "a node that begins to wait overlooks its signal",
        "CASE WHEN $3::boolean AND",
        "CASE WHEN",
        "park_node",
    ),
    PlantedBug("a signal wakes nobody", "n.step = -1", "n.step = -2", "send_signal"),
    PlantedBug(
        "the chore settles nodes without using their edges",
        "gnomon.pass_nodes(k.tenants, k.ids, k.states, '{}')",
        "gnomon.pass_nodes(k.tenants, k.ids, k.states, '{}', 0)",
        "release_nodes",
    ),
    PlantedBug(
        "a failed spawned node does not fail the node that has spawned it",
        "bool_or(e.state = 2)",
        "bool_or(e.state = 9)",
        "join_spawned",
    ),
    PlantedBug(
        "what a node has spawned is stored although its execution is stale",
        "AND fence = $3 AND node = $4",
        "AND fence >= $3 - 1000000 AND $4::uuid IS NOT NULL",
        "hold_spawner",
    ),
    PlantedBug(
        "a node does not stand for what it has spawned",
        "SELECT $1, n.task_id, $3, false FROM new AS n",
        "SELECT $1, n.task_id, $3, false FROM new AS n WHERE n.place > 1",
        "bind_elements",
    ),
    PlantedBug(
        "a settlement claims nodes of its run that it has not made due",
        """FROM passed
        WHERE id IS NOT NULL AND""",
        """FROM (
            SELECT n.tenant_id, n.task_id AS id
            FROM gnomon.workflow_node AS n JOIN gone AS g ON g.workflow_run_id = n.run_id
        ) AS passed
        WHERE id IS NOT NULL AND""",
        "settle",
    ),
    PlantedBug(
        "a settlement claims under the fence that the task had",
        "fence = t.fence + 1",
        "fence = t.fence",
        function="claim_children",
    ),
    PlantedBug(
        "a settlement claims more than there is room for",
        "LIMIT p_most",
        "LIMIT p_most + 100",
        function="claim_children",
    ),
    PlantedBug(
        "a settlement claims for nobody",
        "node = p_node",
        "node = t.node",
        function="claim_children",
    ),
    PlantedBug(
        "a settlement that claims spends two attempts",
        "attempt = t.attempt + 1",
        "attempt = t.attempt + 2",
        function="claim_children",
    ),
)


@contextmanager
def _changed(bug: PlantedBug) -> Iterator[None]:
    """A statement with the bug in it."""
    assert bug.statement is not None
    known, path = statements(), statements()[bug.statement]
    with TemporaryDirectory() as folder:
        text = path.read_text()
        assert bug.right in text, bug
        changed = Path(folder) / path.name
        changed.write_text(text.replace(bug.right, bug.wrong))
        known[bug.statement] = changed
        query.cache_clear()
        try:
            yield
        finally:
            known[bug.statement] = path
            query.cache_clear()


async def found_after(
    bug: PlantedBug, database: Database, clock: Clock, incarnation: UUID
) -> int | None:
    """After how many graphs a planted bug was found; None: it was not."""
    if bug.statement is not None:
        with _changed(bug):
            return await _found(database, clock, incarnation)
    async with database.connection() as connection:
        right = await connection.fetchval(
            "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1", bug.function
        )
        assert bug.right in right, bug
        await connection.execute(right.replace(bug.right, bug.wrong))
        try:
            return await _found(database, clock, incarnation)
        finally:
            await connection.execute(right)


async def _found(database: Database, clock: Clock, incarnation: UUID) -> int | None:
    for seed in range(MOST_GRAPHS):
        chance = random.Random(seed)
        graph = random_graph(chance, 30)
        try:
            async with asyncio.timeout(_PATIENCE):
                if seed % 3 == 0:
                    spawning = SpawningRun(database, graph, clock, incarnation)
                    if await play_spawning(spawning, chance, 3, 150) == 150:
                        return seed + 1
                elif seed % 3 == 1:
                    await play(ComparedRun(database, graph, clock, incarnation), chance, 3)
                else:
                    held = HeldRun(database, graph, clock, incarnation).with_held(chance)
                    if await play_held(held, chance, 3, 150) == 150:
                        return seed + 1
        except Exception:  # noqa: BLE001 - whatever it is, it was noticed
            return seed + 1
    return None
