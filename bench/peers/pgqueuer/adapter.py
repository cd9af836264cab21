"""PgQueuer."""

from bench.peers.installing import python_of
from bench.peers.postgres_peer import PostgresPeer
from bench.peers.queue_table import statements


def _settings(consumers: int, batch: int) -> dict[str, int]:
    return {"consumers": consumers, "batch": batch, "least_poll_ms": 5}


PGQUEUER = PostgresPeer(
    name="pgqueuer",
    title="PgQueuer",
    version="1.6.0",
    command=[str(python_of("pgqueuer")), "-m", "bench.peers.pgqueuer.program"],
    choices=[
        _settings(*each)
        for each in ((2, 500), (1, 250), (1, 1000), (2, 100), (3, 250), (5, 10), (5, 100))
    ],
    statements=statements("pgqueuer"),
    remark="asyncpg, uvloop; jobs are deleted, a log row a change of state",
)
