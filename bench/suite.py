"""All measures of Gnomon, and one peer, one after the other, each on a database of its own."""

from collections.abc import Mapping, Sequence

from rich.progress import Progress

from bench import in_flight, limits, open_loop, peer, spread, webhooks
from bench.stage import Stage
from gnomon.bench import suite
from gnomon.bench.results import Findings
from gnomon.bench.sizes import Sizes

PARTS: Mapping[str, tuple[str, suite.Part]] = {
    **suite.PARTS,
    "open": ("submission at planned rates", open_loop.measure),
    "webhooks": ("webhooks", webhooks.measure),
    "flight": ("webhooks in flight", in_flight.measure),
    "tenants": ("drain of many tenants and priorities", spread.measure),
}
LIMITS, PEER = "limits", "peer"
NAMES = (*PARTS, LIMITS, PEER)


async def run(stage: Stage, sizes: Sizes, names: Sequence[str], progress: Progress) -> Findings:
    bar = progress.add_task("", total=len(names), completed=-1)

    def begins(description: str) -> None:
        progress.update(bar, description=description, advance=1)

    parts = [PARTS[name] for name in names if name in PARTS]
    findings = await suite.run(stage, sizes, parts, begins)
    if LIMITS in names:
        begins("drains under limits")
        found = await limits.run(stage, sizes.tasks, sizes.rounds, progress)
        findings.add(found.measures, *found.tallies)
    if PEER in names:
        begins("the peer")
        measures, tallies = await peer.measure(stage, sizes)
        findings.add(measures, *tallies)
        findings.add(peer.ratios(findings))
    progress.update(bar, description="done", completed=len(names))
    return findings
