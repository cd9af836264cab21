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
    from gnomon.cli.shared.remote import Json


class ScheduleOptions(OptionGroup):
    """Options of `gnomon cron add` and `preview`: when a job fires."""

    cron: Annotated[
        str | None, typer.Option("--cron", metavar="EXPR", help="A cron expression, quoted.")
    ] = None
    every: Annotated[
        Any, options.duration("--every", help="An interval such as 15m, instead of --cron.")
    ] = None
    phase: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Start of --every: 09:07, or a date and time."),
    ] = None
    timezone: options.Timezone = None
    gap: Annotated[Gap | None, typer.Option(help="When clocks skip a fire.")] = None
    fold: Annotated[Fold | None, typer.Option(help="When clocks repeat a fire.")] = None
    start: Annotated[Any, options.moment("--start", help="No fires before this time.")] = None
    end: Annotated[Any, options.moment("--end", help="No fires after this time.")] = None

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
    """Options of `gnomon cron add`: overlapping, missed and late runs, and their number."""

    overlap: Annotated[Overlap | None, typer.Option(help="While the last run is active.")] = None
    missed: Annotated[Missed | None, typer.Option(help="When a run could not start in time.")] = (
        None
    )
    missed_after: Annotated[
        Any, options.duration("--missed-after", help="How late a run counts as missed.")
    ] = None
    backfill_limit: Annotated[
        int | None, typer.Option(min=1, help="Run at most this many missed runs later.")
    ] = None
    backfill_window: Annotated[
        Any,
        options.duration("--backfill-window", help="Run missed runs later up to this age."),
    ] = None
    max_runs: Annotated[
        int | None, typer.Option(min=1, help="End the job after this many fires.")
    ] = None
    jitter: Annotated[
        Any, options.duration("--jitter", help="Delay each run at random, up to this.")
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
        )
