"""How many streams a process has open: of one requester, of a tenant, and in all."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from gnomon.model.errors import Overloaded, ViewersFull

MOST_STREAMS = 1_000
MOST_OF_ONE = 12  # of one session or key, or of one address of scripts, which have none


class StreamSeats:
    """Live pages and streams of events share them."""

    def __init__(self, requests: int) -> None:
        """`requests`: how many may be in progress at once. Most of them must not be streams."""
        self._most = max(min(requests // 4, MOST_STREAMS), 1)
        self._most_of_tenant = max(self._most // 2, 1)
        self._of_tenant: Counter[str | None] = Counter()
        self._of_one: Counter[Hashable] = Counter()
        self._closed = False

    @contextmanager
    def taken(self, one: Hashable | None, tenant_id: str | None) -> Iterator[None]:
        """A stream of `one` requester; None where nobody is told from anybody else. Raises
        Overloaded, ViewersFull."""
        self._check_room(one, tenant_id)
        self._of_tenant[tenant_id] += 1
        self._of_one[one] += 1
        try:
            yield
        finally:
            # Subtracting leaves out what is 0.
            self._of_tenant -= Counter([tenant_id])
            self._of_one -= Counter([one])

    def close(self) -> None:
        """There is no room any more."""
        self._closed = True

    def _check_room(self, one: Hashable | None, tenant_id: str | None) -> None:
        if one is not None and self._of_one[one] >= MOST_OF_ONE:
            raise Overloaded(f"{MOST_OF_ONE} streams are open already; close one of them")
        if self._of_tenant[tenant_id] >= self._most_of_tenant:
            raise Overloaded(f"{self._most_of_tenant} streams of this tenant are open already")
        if self._of_tenant.total() >= self._most or self._closed:
            raise ViewersFull(self._most)
