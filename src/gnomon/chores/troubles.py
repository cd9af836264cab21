"""Errors of the chores of a process: remembered, counted, logged at a bearable pace."""

from collections.abc import Awaitable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec
import structlog

from gnomon.clock import Chance, Clock, chance
from gnomon.model.errors import StoreError, StoreUnavailable
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.events import ChoreFailed, Observer

log = structlog.get_logger("gnomon.chores")

T = TypeVar("T")

FIRST_PAUSE = 0.05
FIRST_YIELD = 0.5  # where PostgreSQL has more to do than it can
LONGEST_PAUSE_UNAVAILABLE = 1.0  # PostgreSQL comes back at some moment: be there soon
LONGEST_PAUSE = 10.0  # of a chore
LONGEST_ASIDE = 300.0  # of one task, job or tenant that is set aside
MOST_KEPT = 200
_LOG_SECONDS = 60.0  # between lines about the same
_KEPT_SECONDS = 3600.0  # of what is not heard of again
_MOST_CHARACTERS = 500
_MOST_SUBJECT_CHARACTERS = 200


class About(NamedTuple):
    """Whom a trouble concerns: one of a tenant's tasks or jobs, a tenant, or the chore itself."""

    tenant_id: str = ""
    subject: str = ""


THE_CHORE = About()
_JOB = "cron job "


def about_task(key: TaskKey) -> About:
    return About(key.tenant_id, f"task {key.id}")


def about_job(tenant_id: str, job_id: UUID) -> About:
    return About(tenant_id, f"{_JOB}{job_id}")


def about_step(of: str, key: TaskKey) -> About:
    """A step of a task, a workflow run or a batch; `key` has its id."""
    return About(key.tenant_id, f"{of} {key.id}")


def jobs_in(abouts: Iterable[About]) -> list[UUID]:
    """The cron jobs among them."""
    named = (about.subject for about in abouts)
    return [UUID(name.removeprefix(_JOB)) for name in named if name.startswith(_JOB)]


class Trouble(msgspec.Struct):
    """An error that has not been overcome."""

    chore: str
    about: About
    error: str
    sqlstate: str | None
    remedy: str
    since: datetime
    last: datetime
    count: int
    retry_at: datetime
    retry_monotonic: float = 0.0
    logged_at: float = float("-inf")


class Troubles:
    """A bounded book of troubles, and what is to be done when something has gone wrong."""

    def __init__(self, clock: Clock, emit: Observer, chance: Chance = chance) -> None:
        self._clock = clock
        self._chance = chance
        self._emit = emit
        self._book: dict[tuple[str, About], Trouble] = {}
        self._away_logged_at = float("-inf")
        self.changed = False

    def note(
        self, chore: str, error: Exception, about: About = THE_CHORE, remedy: str = ""
    ) -> float:
        """Something went wrong; gives the seconds to wait before it is tried again."""
        about = About(about.tenant_id, _short(about.subject, _MOST_SUBJECT_CHARACTERS))
        now, monotonic = self._clock.now(), self._clock.monotonic()
        trouble = self._book.get((chore, about))
        if trouble is None:
            trouble = Trouble(chore, about, "", None, "", now, now, 0, now)
            self._keep(trouble)
        trouble.error = _short(_described(error), _MOST_CHARACTERS)
        trouble.sqlstate = error.sqlstate if isinstance(error, StoreError) else None
        trouble.remedy = remedy or _remedy(error)
        trouble.last = now
        trouble.count += 1
        pause = _pause(error, trouble)
        trouble.retry_at = now + timedelta(seconds=pause)
        trouble.retry_monotonic = monotonic + pause
        self.changed = True
        self._log(trouble, error, pause, monotonic)
        self._emit(ChoreFailed(chore))
        return pause

    def postpone(self, chore: str) -> float:
        """Try the chore, which was noted just now, later than that: PostgreSQL has more to do than
        it can. Gives the seconds, by chance: other processes wait as well."""
        trouble = self._book[chore, THE_CHORE]
        bound = min(LONGEST_PAUSE, FIRST_YIELD * 2.0 ** min(trouble.count - 1, 20))
        pause = bound * (0.5 + self._chance() / 2)
        trouble.retry_at = self._clock.now() + timedelta(seconds=pause)
        trouble.retry_monotonic = self._clock.monotonic() + pause
        return pause

    async def noting(self, chore: str, work: Awaitable[T], about: About = THE_CHORE) -> T:
        """The result of work that is not repeated here: whoever asked decides what follows."""
        try:
            result = await work
        except StoreError as error:
            self.note(chore, error, about)
            raise
        self.over(chore, about)
        return result

    def over(self, chore: str, about: About = THE_CHORE) -> None:
        """The chore went well."""
        if not self._book:
            return
        trouble = self._book.pop((chore, about), None)
        if trouble is not None:
            self.changed = True
            if about == THE_CHORE and trouble.logged_at > float("-inf"):
                log.info("a chore works again", chore=chore, failures=trouble.count)

    def over_all(self, chore: str, abouts: Iterable[About]) -> None:
        """The chore went well for each of these."""
        if self._book:
            for about in abouts:
                self.over(chore, about)

    def over_since(self, chore: str, began: float) -> None:
        """All that the chore was to try again by then was tried, and went well: whatever was not
        has been noted again."""
        for name, about in list(self._book):
            tried = self._book[name, about].retry_monotonic <= began
            if name == chore and about != THE_CHORE and tried:
                self.over(name, about)

    def aside(self, chore: str) -> list[About]:
        """Subjects whose time to be tried again has not come."""
        if not self._book:
            return []
        now = self._clock.monotonic()
        return [
            about
            for (name, about), trouble in self._book.items()
            if name == chore and about != THE_CHORE and trouble.retry_monotonic > now
        ]

    def all(self) -> list[Trouble]:
        """Troubles that are not over; not those that were not heard of for an hour."""
        oldest = self._clock.monotonic() - _KEPT_SECONDS
        for key, trouble in list(self._book.items()):
            if trouble.retry_monotonic < oldest:
                del self._book[key]
        return list(self._book.values())

    def _keep(self, trouble: Trouble) -> None:
        while len(self._book) >= MOST_KEPT:
            del self._book[min(self._book, key=lambda key: self._book[key].last)]
        self._book[trouble.chore, trouble.about] = trouble

    def _log(self, trouble: Trouble, error: Exception, pause: float, now: float) -> None:
        if isinstance(error, StoreUnavailable) and error.sqlstate is None:
            # All chores say so at once: one line for all of them.
            if now - self._away_logged_at >= _LOG_SECONDS:
                self._away_logged_at = now
                log.warning(f"{error}, retrying in {pause:g} s", chore=trouble.chore)
            return
        if now - trouble.logged_at < _LOG_SECONDS:
            return
        trouble.logged_at = now
        tell = log.warning if isinstance(error, StoreUnavailable) else log.error
        tell(
            "a chore failed, and is tried again"
            if trouble.about == THE_CHORE
            else "set aside: it fails",
            chore=trouble.chore,
            tenant=trouble.about.tenant_id or None,
            subject=trouble.about.subject or None,
            why=trouble.error,
            failures=trouble.count,
            retry_seconds=round(pause, 3),
            exc_info=None if isinstance(error, StoreError) else error,
        )


def _pause(error: Exception, trouble: Trouble) -> float:
    if trouble.about != THE_CHORE:
        longest = LONGEST_ASIDE
    elif isinstance(error, StoreUnavailable):
        longest = LONGEST_PAUSE_UNAVAILABLE
    else:
        longest = LONGEST_PAUSE
    return float(min(longest, FIRST_PAUSE * 2 ** min(trouble.count - 1, 20)))


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"


def _remedy(error: Exception) -> str:
    if isinstance(error, StoreUnavailable):
        return "see to PostgreSQL (memory, disk, locks, connections); it is retried by itself"
    if isinstance(error, StoreError):
        return "see to PostgreSQL's log for the statement; it is retried by itself"
    return "see this process's log for the traceback; it is retried by itself"


def _short(text: str, most: int) -> str:
    """The text as any table and any terminal can take it."""
    clean = text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean if len(clean) <= most else clean[: most - 1] + "…"
