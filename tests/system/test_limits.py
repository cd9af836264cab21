"""A short version of `make limits`: two nodes, one of them killed, one limit changed."""

from pathlib import Path

import pytest
from proof.limits.campaign import CUSTOMERS, Campaign
from tests.system.harness import eventually

pytestmark = pytest.mark.system


async def test_limits_hold_while_a_node_is_killed(database_dsn: str, tmp_path: Path) -> None:
    campaign = Campaign(database_dsn, tmp_path, nodes=2, seed=1)

    async def each_was_reached() -> bool:
        return all(
            any(row[2] >= campaign.limits[bucket].now for row in campaign.rows[bucket])
            for bucket in ("mail", *CUSTOMERS)
        )

    async with campaign.under_load():
        await eventually(each_was_reached)
        await campaign.edit("mail", 9)
        await campaign.kill()
        before = campaign.observer.looks

        async def more_was_called() -> bool:
            return campaign.observer.looks > before + 200

        await eventually(more_was_called)
    result = await campaign.result()
    assert result.holds, result.readable()
    assert campaign.done["node killed"] == 1
