"""Procrastinate."""

from bench.peers.installing import python_of
from bench.peers.postgres_peer import PostgresPeer
from bench.peers.queue_table import statements


def _settings(workers: int, concurrency: int, delete_jobs: str) -> dict[str, object]:
    return {
        "workers": workers,
        "concurrency": concurrency,
        "connections": min(90, workers * 2 + 4),
        "poll_ms": 20,
        "delete_jobs": delete_jobs,
    }


PROCRASTINATE = PostgresPeer(
    name="procrastinate",
    title="Procrastinate",
    version="3.10.0",
    command=[str(python_of("procrastinate")), "-m", "bench.peers.procrastinate.program"],
    choices=[
        _settings(*each)
        for each in (
            (2, 10, "always"),
            (1, 10, "always"),
            (4, 10, "always"),
            (8, 5, "always"),
            (2, 10, "never"),
        )
    ],
    statements=statements("procrastinate_jobs", "status IN ('todo', 'doing')"),
    most=5_000,
    remark="psycopg (C), uvloop; a job is fetched at a time; jobs are deleted",
)
