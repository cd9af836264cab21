"""The peer, in the same run on the same server: PgQueuer, at the best settings found for it."""

import sys
from pathlib import Path

import msgspec

from bench.processes import output_of
from bench.results import BenchError, Findings, Measure, Tally, at_least
from bench.sizes import Sizes
from bench.stage import Stage
from bench.trees import ROOT

INTERPRETER = Path(sys.prefix) / "peer" / "bin" / "python"  # an environment of its own


class PeerResult(msgspec.Struct, frozen=True):
    """What peer_worker.py prints."""

    version: str
    consumers: int
    batch: int
    enqueue_seconds: float
    drain_seconds: float
    left: int
    done: int


async def measure(stage: Stage, sizes: Sizes) -> tuple[list[Measure], list[Tally]]:
    if not INTERPRETER.exists():
        return [_missing("it is not installed: `make bench` does that")], []
    program = [INTERPRETER, ROOT / "bench" / "peer_worker.py"]
    try:
        async with stage.empty_database() as dsn:
            text = await output_of(
                [*map(str, program), dsn, str(sizes.tasks), str(sizes.trial_jobs)]
            )
    except BenchError as error:
        return [_missing(f"it failed: {str(error).splitlines()[-1]}")], []
    found = msgspec.json.decode(text, type=PeerResult)
    note = f"PgQueuer {found.version}, {found.consumers} consumers, batches of {found.batch}"
    drain, enqueue = sizes.tasks / found.drain_seconds, sizes.tasks / found.enqueue_seconds
    own_way = "batches of 1000, no HTTP"
    measures = [
        Measure("peer_drain_rate", "PgQueuer: drain", drain, "/s", note=note),
        Measure("peer_enqueue_rate", "PgQueuer: enqueue", enqueue, "/s", note=own_way),
    ]
    return measures, [Tally("peer", sizes.tasks, found.done)]


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
