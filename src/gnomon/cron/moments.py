"""The moments at which an expression fires in a zone."""

from datetime import timedelta

from gnomon.cron.describe import describe_cron
from gnomon.cron.dst import Dst, Gap
from gnomon.cron.expression import CronExpression
from gnomon.cron.local import LocalTimes
from gnomon.cron.notes import fold_note, gap_note
from gnomon.cron.timeline import REACH, Span, timeline
from gnomon.cron.zones import EPOCH, zone


class CronMoments:
    """Local times, laid on the zone's timeline. Moments are seconds since `epoch`."""

    __slots__ = ("_expression", "_local", "_policy", "_span", "_timeline", "_timezone", "epoch")

    def __init__(self, expression: CronExpression, timezone: str, policy: Dst) -> None:
        self.epoch = EPOCH
        self._expression = expression
        self._timezone = timezone
        self._policy = policy
        self._local = LocalTimes(expression)
        self._timeline = timeline(timezone, policy)
        self._span = Span(0, 0, 0, 0, 0)

    def after(self, moment: int, limit: int) -> int | None:
        """The first fire later than `moment`, and not later than `limit`."""
        earliest = moment + 1
        start, end, offset, opens, closes = self._span_at(earliest)
        # At its first moment a span also fires for the gap before it.
        searched = opens if earliest == start else max(earliest + offset, opens)
        found = self._local.from_(searched)
        while found is not None:
            if found < closes:
                at = max(found - offset, start)
                return at if at <= limit else None
            # Nothing matches before `found`, so what lies between need not be visited; but a
            # change that is near may repeat local times from before `searched`.
            near = end - moment < REACH
            start, end, offset, opens, closes = self._span_at(
                end if near else max(end, found - REACH)
            )
            if start > limit:
                return None
            if not searched <= opens <= found:
                searched = opens
                found = self._local.from_(searched)
        return None

    def before(self, moment: int, limit: int) -> int | None:
        """The last fire earlier than `moment`, and not earlier than `limit`."""
        latest = moment - 1
        start, end, offset, opens, closes = self._span_at(latest)
        searched = min(latest + offset, closes - 1)
        found = self._local.until(searched)
        while found is not None:
            if found >= opens:
                at = max(found - offset, start)
                return at if at >= limit else None
            near = moment - start < REACH
            start, end, offset, opens, closes = self._span_at(
                start - 1 if near else min(start - 1, found + REACH)
            )
            if end <= limit:
                return None
            if not found < closes <= searched + 1:
                searched = closes - 1
                found = self._local.until(searched)
        return None

    def note(self, previous: int, at: int) -> str | None:
        """The effect of clock changes on the fire `at`, and on others since `previous`."""
        change = at
        if self._policy.gap is Gap.SKIP:
            # The policy that fires after a gap would do so where this one skips.
            other = Dst(Gap.FIRE_AFTER, self._policy.fold)
            moved = CronMoments(self._expression, self._timezone, other).after(previous, at)
            change = at if moved is None else moved
        here = zone(self._timezone)
        found = gap_note(self._expression, self._local, here, self._policy, change)
        return found or fold_note(self._policy, (EPOCH + timedelta(0, at)).astimezone(here))

    def describe(self) -> str:
        return describe_cron(self._expression)

    def _span_at(self, moment: int) -> Span:
        span = self._span
        if not span.start <= moment < span.end:
            span = self._span = self._timeline.at(moment)
        return span
