"""The definition of a recurring job, beside the template of its tasks: as options, and as the body
that the API takes."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.cron import options
from gnomon.cli.shared import values
from gnomon.cli.shared.groups import OptionGroup
from gnomon.cli.shared.values import given
from gnomon.cron.job import Missed, Overlap
from gnomon.cron.schedule import Fold, Gap

if TYPE_CHECKING:
    from gnomon.client.client import Json


class ScheduleOptions(OptionGroup):
    """Options of `gnomon cron add` and `preview`: when a job fires."""

    cron: Annotated[
        str | None, typer.Option("--cron", metavar="EXPR", help="When: a cron expression, quoted.")
    ] = None
    every: Annotated[
        Any, options.duration("--every", help="When: at an interval, such as 15m.")
    ] = None
    phase: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Where --every counts from: 09:07, or a moment."
        ),
    ] = None
    timezone: options.Timezone = None
    gap: Annotated[Gap | None, typer.Option(help="When clocks skip the time.")] = None
    fold: Annotated[Fold | None, typer.Option(help="When the time comes twice.")] = None
    start: Annotated[Any, options.moment("--start", help="Nothing fires before.")] = None
    end: Annotated[Any, options.moment("--end", help="Nothing fires after.")] = None

    def check(self) -> None:
        """Raises BadParameter unless it is an expression or an interval."""
        if (self.cron is None) == (self.every is None):
            raise typer.BadParameter("say when: either --cron '0 9 * * MON-FRI' or --every 15m")
        if self.phase is not None and self.every is None:
            raise typer.BadParameter("--from is where --every counts from; --cron needs none")

    def body(self) -> "Json":
        """The fields that the API takes."""
        self.check()
        return given(
            cron_expression=self.cron,
            interval_seconds=self.every,
            interval_from=self.phase,
            timezone=self.timezone,
            dst=given(gap=self.gap, fold=self.fold) or None,
            start_date=None if self.start is None else values.rfc3339(self.start),
            end_date=None if self.end is None else values.rfc3339(self.end),
        )


class PolicyOptions(OptionGroup):
    """Options of `gnomon cron add`: how many runs there are, how late, and what else happens."""

    overlap: Annotated[Overlap | None, typer.Option(help="While a run goes on.")] = None
    missed: Annotated[Missed | None, typer.Option(help="When none could start.")] = None
    missed_after: Annotated[
        Any, options.duration("--missed-after", help="How late a run is missed.")
    ] = None
    backfill_limit: Annotated[
        int | None, typer.Option(min=1, help="How many missed runs are made up for, at most.")
    ] = None
    backfill_window: Annotated[
        Any,
        options.duration(
            "--backfill-window", help="How old a missed run may be to be made up for."
        ),
    ] = None
    max_runs: Annotated[
        int | None, typer.Option(min=1, help="After so many fires it is finished.")
    ] = None
    jitter: Annotated[
        Any, options.duration("--jitter", help="Start each run up to so much later.")
    ] = None
    sla: Annotated[
        Any, options.duration("--sla", help="Raise an event when a run starts later than that.")
    ] = None

    def body(self) -> "Json":
        """The fields that the API takes."""
        return given(
            overlap_policy=self.overlap,
            missed_run_policy=self.missed,
            missed_after_seconds=self.missed_after,
            backfill_limit=self.backfill_limit,
            backfill_window_seconds=self.backfill_window,
            max_runs=self.max_runs,
            jitter_seconds=self.jitter,
            sla_seconds=self.sla,
        )
