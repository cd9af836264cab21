"""pg-boss."""

from bench.peers.node_programs import node_command, node_environ
from bench.peers.postgres_peer import PostgresPeer
from bench.peers.queue_table import Statements

_UNFINISHED = "pgboss.job WHERE name = 'bench' AND state < 'completed'"


def _settings(workers: int, batch: int) -> dict[str, int]:
    return {"workers": workers, "batch": batch, "connections": 10, "poll_ms": 500}


PG_BOSS = PostgresPeer(
    name="pg_boss",
    title="pg-boss",
    version="12.35.0",
    command=node_command("pg_boss"),
    environ=node_environ("pg_boss"),
    choices=[_settings(*each) for each in ((2, 1000), (1, 1000), (2, 300), (4, 300), (4, 1000))],
    statements=Statements(
        f"SELECT id FROM {_UNFINISHED} ORDER BY created_on DESC, id DESC LIMIT 1",
        f"SELECT true FROM {_UNFINISHED} AND id = $1",
        f"SELECT count(*) FROM {_UNFINISHED}",
    ),
    remark="keeps history; a batch is one call of the handler; it polls twice a second at best",
)
