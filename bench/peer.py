"""One peer in the quick run: PgQueuer. `make bench ARGS=peers` measures all of them."""

from bench.peers.installing import is_installed
from bench.peers.measures import Entry, drain
from bench.peers.measures import Sizes as PeerSizes
from bench.peers.measures import enqueue as enqueue_both_ways
from bench.peers.pgqueuer.adapter import PGQUEUER
from bench.stage import Stage
from gnomon.bench.results import BenchError, Findings, Measure, TaskTally, at_least
from gnomon.bench.sizes import Sizes


async def measure(stage: Stage, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    if not is_installed(PGQUEUER.name):
        return [_missing("it is not installed: `make bench` does that")], []
    entry = Entry(PGQUEUER, PGQUEUER.choices[0])
    try:
        drained = await drain(stage, entry, sizes.tasks)
        stored = await enqueue_both_ways(stage, entry, PeerSizes(seconds=sizes.seconds / 2))
    except BenchError as error:
        return [_missing(f"it failed: {str(error).splitlines()[-1]}")], []
    note = f"{PGQUEUER.version}, " + ", ".join(f"{k} {v}" for k, v in entry.settings.items())
    own_way = "batches of 1000, no HTTP"
    measures = [
        Measure("peer_drain_rate", "PgQueuer: drain", drained["rate"], "/s", note=note),
        Measure("peer_enqueue_rate", "PgQueuer: enqueue", stored["bulk"], "/s", note=own_way),
    ]
    return measures, [
        TaskTally("peer", sizes.tasks, sizes.tasks)
    ]  # each ran once, or it had failed


def ratios(findings: Findings) -> list[Measure]:
    """Ours over theirs, where both were measured."""
    pairs = [
        ("drain_ratio", "drain, Gnomon : PgQueuer", "drain_rate", "peer_drain_rate", at_least(3)),
        ("submit_ratio", "submit in batches, Gnomon over HTTP : PgQueuer", "submit_batch_rate",
         "peer_enqueue_rate", None),
    ]  # fmt: skip
    measures = []
    for name, title, ours, theirs, target in pairs:
        own, peer = findings.value(ours), findings.value(theirs)
        if own is not None and peer is not None:
            measures.append(Measure(name, title, own / peer, "x", target))
    return measures


def _missing(why: str) -> Measure:
    return Measure("peer_drain_rate", "PgQueuer: drain", None, "/s", note=why)
