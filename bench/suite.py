"""All measures, one after the other, each on a database of its own."""

from collections.abc import Awaitable, Callable, Sequence

from rich.progress import Progress

from bench import drain, latency, peer, submission, sustained
from bench.results import Findings, Measure, Tally
from bench.sizes import Sizes
from bench.stage import Stage

Part = Callable[[Stage, Sizes], Awaitable[tuple[list[Measure], list[Tally]]]]

PARTS: dict[str, tuple[str, Part]] = {
    "submit": ("submission over HTTP", submission.measure),
    "drain": ("drain of a backlog", drain.functions),
    "latency": ("start delays", latency.measure),
    "sustained": ("submit, run and settle at once", sustained.measure),
    "webhooks": ("webhooks", drain.webhooks),
    "peer": ("the peer", peer.measure),
}


async def run(stage: Stage, sizes: Sizes, parts: Sequence[str], progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=len(parts))
    for name in parts:
        description, part = PARTS[name]
        progress.update(bar, description=description)
        measures, tallies = await part(stage, sizes)
        findings.add(measures, *tallies)
        progress.advance(bar)
    progress.update(bar, description="done")
    findings.add(peer.ratios(findings))
    return findings
