"""The store's clock beside our own: never surer than the answers that were heard. Pure."""

from datetime import datetime

_DRIFT = 1e-3  # how fast the two may part


class StoreTime:
    """Bounds of how far the store's clock is ahead of ours, narrowed by every answer, and widened
    by the time that has passed since, or will have passed by a moment that is asked about."""

    def __init__(self) -> None:
        self._low, self._high = float("-inf"), float("inf")
        self._heard_at = 0.0

    def heard(self, store_now: datetime, asked_at: float, answered_at: float) -> None:
        """The store looked at its clock between the question and the answer."""
        moment = store_now.timestamp()
        low, high = moment - answered_at, moment - asked_at
        drift = (answered_at - self._heard_at) * _DRIFT
        self._low, self._high = max(low, self._low - drift), min(high, self._high + drift)
        self._heard_at = answered_at
        if self._low > self._high:  # a clock was set
            self._low, self._high = low, high

    def surely_after(self, moment: datetime) -> float:
        """By our clock: from then on, the store's has reached that moment."""
        return self._stretched(moment.timestamp() - self._low, 1.0 - _DRIFT)

    def surely_before(self, moment: datetime) -> float:
        """By our clock: until then, the store's has not passed that moment."""
        return self._stretched(moment.timestamp() - self._high, 1.0 + _DRIFT)

    def _stretched(self, moment: float, pace: float) -> float:
        """When a clock of this pace gets there that was right when it was last heard of."""
        ahead = moment - self._heard_at
        return self._heard_at + ahead / pace if ahead > 0 else moment
