"""The last look before a call is made, and the first to hear what came of it."""

from collections.abc import Sequence
from typing import Protocol

from gnomon.pipe.envelope import Delivery, Report


class CallCheck(Protocol):
    """Keeps calls from being made that would only fail."""

    def may_call(self, delivery: Delivery) -> bool:
        """Whether to call now; if not, it is given back unstarted."""

    def called(self, report: Report) -> None:
        """What a try came to, before it is settled. Without an outcome no call was made."""


class NoCallCheck:
    """Lets everything through."""

    def may_call(self, delivery: Delivery) -> bool:
        del delivery
        return True

    def called(self, report: Report) -> None:
        pass


class CallChecks:
    """Several, one after the other."""

    def __init__(self, each: Sequence[CallCheck]) -> None:
        self._each = tuple(each)

    def may_call(self, delivery: Delivery) -> bool:
        for gate in self._each:  # noqa: SIM110 - a generator costs more than they do
            if not gate.may_call(delivery):
                return False
        return True

    def called(self, report: Report) -> None:
        for gate in self._each:
            gate.called(report)
