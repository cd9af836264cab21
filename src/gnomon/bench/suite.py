"""All measures, one after the other, each on a database of its own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from gnomon.bench import drain, latency, submission, sustained
from gnomon.bench.arena import Arenas
from gnomon.bench.results import Findings, Measure, TaskTally
from gnomon.bench.sizes import Sizes

Part = Callable[[Arenas, Sizes], Awaitable[tuple[list[Measure], list[TaskTally]]]]

PARTS: Mapping[str, tuple[str, Part]] = {
    "submit": ("submission over HTTP", submission.measure),
    "drain": ("drain of a backlog", drain.measure),
    "latency": ("start delays", latency.measure),
    "sustained": ("submit, run and settle at once", sustained.measure),
}


async def run(
    arenas: Arenas, sizes: Sizes, parts: Sequence[tuple[str, Part]], begins: Callable[[str], None]
) -> Findings:
    """What the parts find. `begins` is told what each of them is about."""
    findings = Findings()
    for description, part in parts:
        begins(description)
        measures, tallies = await part(arenas, sizes)
        findings.add(measures, *tallies)
    return findings
