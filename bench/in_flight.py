"""Webhooks that are under way at once on one node, and what memory they take."""

from bench.webhooks import received_by, receiving
from gnomon.bench.arena import Arenas
from gnomon.bench.results import Measure, TaskTally, at_least, at_most
from gnomon.bench.sizes import Sizes
from gnomon.model.targets.target import HttpTarget

HOLD_SECONDS = 8.0  # longer than it takes to call them all
ENDED_SECONDS = 120.0
MEMORY = 400  # MB


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    count = sizes.flight
    room = {"node_slots": str(count), "targets_connections_per_host": str(count)}
    async with receiving(HOLD_SECONDS) as url, arenas.arena() as arena:
        await arena.preload(HttpTarget(url), count)
        async with arena.node(node_critical_slots="0", **room) as node:
            settled = await arena.settled(ENDED_SECONDS)
            memory, took = node.peak_memory(), settled - node.ready_at
        received, most = await received_by(url)
        completed = await arena.completed()
    note = f"{count} webhooks answered after {HOLD_SECONDS:g} s; all over after {took:.1f} s"
    measures = [Measure("flight_most", "in flight on one node", most, "", at_least(count), note)]
    if memory is not None:
        title = "in flight: memory of the node at the most"
        measures.append(Measure("flight_memory", title, memory / 1e6, "MB", at_most(MEMORY)))
    return measures, [TaskTally("flight", count, min(completed, received), 0, received - count)]
