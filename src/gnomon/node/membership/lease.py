"""A lease as a value: until when this node may start work."""

from uuid import UUID


class Lease:
    """Written by the thread that renews it, read by everyone else (plain attributes: each is
    one atomic store).

    A node may start something only while `trusted`. What it already runs goes on; its writes are
    fenced anyway. `since` is when the current unbroken run of renewals began: only a node that
    has itself been alive for a whole lease may speak about others.
    """

    def __init__(self, incarnation: UUID, ttl: float, interval: float | None = None) -> None:
        self.incarnation = incarnation
        self.ttl = ttl
        self._usual = interval or ttl / 5
        self.interval = self._usual  # between renewals
        self.margin = ttl / 5
        self.trusted_until = float("-inf")
        self.since: float | None = None
        self.lost = False

    def renewed(self, asked_at: float, granted: float | None = None) -> None:
        """A renewal asked for at `asked_at` (monotonic) has gone through. `granted`: for how long,
        where whoever renews it has another lease than it began with; it is never trusted for longer
        than it began with."""
        lease = self.ttl if granted is None else min(self.ttl, granted)
        # One that comes after the lease has run out (the machine slept) begins a new run. Before
        # `trusted_until` is set, so that nobody sees the new trust with the old run.
        if self.since is None or asked_at >= self.trusted_until + self.margin:
            self.since = asked_at
        self.trusted_until = asked_at + lease - self.margin * lease / self.ttl
        self.interval = self._usual * lease / self.ttl

    def missed(self) -> None:
        """A renewal has failed: the run is broken, the trust lasts as long as it was given."""
        self.since = None

    def is_trusted(self, now: float) -> bool:
        return not self.lost and now < self.trusted_until

    def may_judge(self, now: float) -> bool:
        """Whether renewals have gone through for a whole lease without a break."""
        return self.since is not None and now - self.since >= self.ttl and self.is_trusted(now)
