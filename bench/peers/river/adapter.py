"""River."""

from bench.peers.installing import built
from bench.peers.postgres_peer import PostgresPeer
from bench.peers.queue_table import statements


def _settings(max_workers: int, fetch_cooldown_ms: int, poll_ms: int) -> dict[str, int]:
    return {
        "max_workers": max_workers,
        "fetch_cooldown_ms": fetch_cooldown_ms,
        "poll_ms": poll_ms,
        "connections": 10,
    }


RIVER = PostgresPeer(
    name="river",
    title="River",
    version="0.51.0",
    command=[str(built("river") / "program")],
    choices=[
        _settings(*each)
        for each in ((2000, 1, 20), (1000, 1, 20), (5000, 1, 20), (500, 1, 20), (2000, 2, 20))
    ],
    statements=statements("river_job", "finalized_at IS NULL"),
    remark="Go, all cores in one process; keeps history; batches by COPY",
)
