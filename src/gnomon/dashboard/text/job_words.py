"""A recurring job in a sentence or two: how it goes, and what comes next."""

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from gnomon.api.cron.schemas import CronJobView, JobStatus, RunStatus, RunView
from gnomon.dashboard.rendering import moment
from gnomon.store.ports.work.cron import SUCCESS_LOOKED_FOR

_WENT = {
    RunStatus.COMPLETED: "succeeded",
    RunStatus.RUNNING: "runs now",
    RunStatus.FAILED: "failed and waits for its retry",
    RunStatus.DEAD_LETTERED: "failed for good",
    RunStatus.CANCELLED: "was cancelled",
    RunStatus.EXPIRED: "could not be started in time",
    RunStatus.SKIPPED: "was skipped",
    RunStatus.MISSED: "was missed",
    RunStatus.PAUSED: "is paused",
    RunStatus.BLOCKED: "waits for the run before it",
    RunStatus.READY: "is due and has not started yet",
    RunStatus.SCHEDULED: "is about to start",
}


def job_summary(job: CronJobView, last: RunView | None) -> Markup:
    """What the job does now: the last fire, and the next."""
    return Markup(" ").join([_last(last), *_success(job, last), _next(job)])


def _last(last: RunView | None) -> Markup:
    if last is None:
        return Markup("It has not fired yet.")
    went = "was removed" if last.status is None else _WENT[last.status]
    return Markup("The last run, of {}, {}.").format(moment(last.fire_at), went)


def _success(job: CronJobView, last: RunView | None) -> list[Markup]:
    """When it last went well, where the last run does not say so."""
    if last is None or last.status is RunStatus.COMPLETED:
        return []
    if job.last_success_at is None:
        if job.runs <= SUCCESS_LOOKED_FOR:
            return [Markup("It has not succeeded yet.")]
        return [Markup("None of its last {} fires has succeeded.").format(SUCCESS_LOOKED_FOR)]
    return [Markup("Its last success was at {}.").format(moment(job.last_success_at))]


def _next(job: CronJobView) -> Markup:
    if job.status is JobStatus.PAUSED:
        return Markup("Nothing fires while it is paused.")
    if job.next_fire_at is None:
        return Markup("It is finished: nothing fires any more.")
    return Markup("The next fire is at {}.").format(moment(job.next_fire_at))


def outlook(runs: Sequence[RunView]) -> str:
    """The strip of runs in words, for who cannot see it."""
    if not runs:
        return "no run yet"
    found = Counter("removed" if run.status is None else run.status.value for run in runs)
    parts = [f"{count} {name.lower().replace('_', ' ')}" for name, count in found.most_common()]
    return f"last {len(runs)} runs: {', '.join(parts)}"
