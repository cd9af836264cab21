"""Programs get the results of their tasks, whatever happens to those who make them."""

import pytest
from proof.campaigns.results import run

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

FAULTS = ("kill", "pause", "restart", "api")


async def test_every_result_arrives_or_its_failure_does_and_none_is_wrong() -> None:
    verdict = await run(seed=1, seconds=9.0, rate=8.0, plan=FAULTS)
    assert verdict.wrong == []
    assert set(verdict.faults) == set(FAULTS)
    assert verdict.results > 10
    assert verdict.failures > 0
