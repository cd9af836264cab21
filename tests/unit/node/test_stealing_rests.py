"""How often an idle node looks for the work of others."""

from typing import Any, cast

import pytest

from gnomon.clock import SystemClock
from gnomon.node.dispatch.stage import DispatchStage
from gnomon.node.dispatch.stealer import StealResult
from gnomon.node.signals import Signals


class SteppedClock(SystemClock):
    """Time passes only where somebody lets it."""

    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


class Looks:
    """Idle, with others that have so much to walk; it takes `took` seconds."""

    def __init__(self, clock: SteppedClock, took: float, result: StealResult) -> None:
        self._clock = clock
        self._took = took
        self._result = result

    def idle(self) -> int:
        return 1

    async def run_once(self) -> StealResult:
        self._clock.at += self._took
        return self._result


@pytest.mark.parametrize(
    ("took", "result", "rest"),
    [
        (0.001, StealResult(), 0.5),
        (0.1, StealResult(), 1.0),
        (60.0, StealResult(), 5.0),
        (0.1, StealResult(found=1, stolen=1), 0.5),
    ],
)
async def test_a_look_in_vain_is_a_tenth_of_the_time_at_most(
    took: float, result: StealResult, rest: float
) -> None:
    clock = SteppedClock()
    looks = cast("Any", Looks(clock, took, result))
    stage = DispatchStage(looks, looks, cast("Any", None), Signals(), clock, steal_seconds=1.0)
    _, stealing = stage.services()
    assert stealing.wait is not None
    await stealing.once()
    before = clock.monotonic()
    await stealing.wait()
    assert clock.monotonic() - before == pytest.approx(rest)
