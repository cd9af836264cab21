"""graphile-worker."""

from bench.peers.node_programs import node_command, node_environ
from bench.peers.postgres_peer import PostgresPeer
from bench.peers.queue_table import statements


def _settings(concurrent_jobs: int, local_queue: int, refetch_delay_ms: int) -> dict[str, int]:
    return {
        "concurrent_jobs": concurrent_jobs,
        "connections": 10,
        "poll_ms": 20,
        "local_queue": local_queue,
        "refetch_delay_ms": refetch_delay_ms,
        "complete_batch_delay_ms": 0,
    }


GRAPHILE_WORKER = PostgresPeer(
    name="graphile_worker",
    title="graphile",
    version="0.18.0",
    command=node_command("graphile_worker"),
    environ=node_environ("graphile_worker"),
    choices=[
        _settings(*each)
        for each in ((24, 500, 0), (24, 500, 10), (100, 500, 0), (24, 1000, 0), (10, 250, 0))
    ],
    statements=statements("graphile_worker._private_jobs"),
    remark="keeps no history: jobs are deleted",
)
