"""How often the dispatcher looks for more."""

from typing import Any, cast

import pytest

from gnomon.clock import SystemClock
from gnomon.node.dispatch.dispatcher import DispatchResult
from gnomon.node.dispatch.stage import DispatchStage
from gnomon.node.signals import Signals


class Batches:
    """Claims `ready` entries, two at a time; as the dispatcher and as the stage ahead."""

    def __init__(self, ready: int) -> None:
        self.ready = ready
        self.looks = 0

    def awaits(self) -> bool:
        return self.ready > 0

    async def run_once(self) -> DispatchResult:
        self.looks += 1
        chosen = min(2, self.ready)
        self.ready -= chosen
        return DispatchResult(chosen, chosen)

    def claimed(self) -> None:
        """Entries have left the agenda."""

    def look_for_herd(self) -> None:
        """Nothing more is due."""


@pytest.mark.parametrize(("ready", "looks"), [(0, 1), (1, 1), (2, 1), (5, 3)])
async def test_all_that_is_ready_is_claimed_and_nothing_is_looked_for_in_vain(
    ready: int, looks: int
) -> None:
    batches = Batches(ready)
    each = cast("Any", batches)
    stage = DispatchStage(each, each, each, Signals(), SystemClock(), steal_seconds=1.0)
    await stage.dispatch()
    assert batches.ready == 0
    assert batches.looks == looks
