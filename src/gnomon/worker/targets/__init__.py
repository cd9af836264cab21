"""The ways to run a task, one file each."""

from typing import Protocol

from gnomon.model.outcome import Outcome
from gnomon.pipe.envelope import Delivery


class Caller(Protocol):
    """Calls targets of one type.

    `call` gives an outcome for everything that the target did, failure included; it raises only
    when it is cancelled, or for a fault of Gnomon's own. It is cancelled at the task's timeout.
    """

    async def call(self, delivery: Delivery, payload: bytes | None) -> Outcome:
        """One try."""
