"""The ways to run a task, one file each."""

from typing import Protocol

from gnomon.model.outcome import Outcome
from gnomon.pipe.envelope import Delivery
from gnomon.worker.run import Run


class Caller(Protocol):
    """Calls targets of one type.

    `call` gives an outcome for everything that the target did, failure included; it raises only
    when it is cancelled, or for a fault of Gnomon's own. It is cancelled at the task's timeout.
    `run` is what the target may be told of the try; whether it was completed, and whether it is
    called in a thread, the runner reads there even when the call never returns.
    """

    async def call(self, delivery: Delivery, payload: bytes | None, run: Run) -> Outcome:
        """One try."""
