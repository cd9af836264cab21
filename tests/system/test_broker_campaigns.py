"""Short campaigns with workers behind RabbitMQ and Kafka, as CI runs them."""

import os

import pytest
from proof.campaigns.campaign import run
from proof.campaigns.faults import KAFKA, RABBITMQ, Planned
from proof.campaigns.orders import REMOTE
from proof.campaigns.pipe_servers import PipeName
from proof.campaigns.progress import Progress
from proof.campaigns.setup import Setup
from tests.brokers import RABBITMQ as RABBITMQ_PROGRAM
from tests.kafka.jars import missing

pytestmark = pytest.mark.system

# A broker is started without data. It stands still for less than a lease.
FAULTS: dict[PipeName, list[Planned]] = {
    "rabbitmq": [
        Planned(kind="rabbitmq_cut", victim=RABBITMQ, at=2.0),
        Planned(kind="rabbitmq_pause", victim=RABBITMQ, at=4.0, seconds=1.0),
        Planned(kind="kill", victim="worker-2", at=7.0, seconds=0.3),
        Planned(kind="rabbitmq_kill", victim=RABBITMQ, at=8.0, seconds=0.2),
    ],
    "kafka": [
        Planned(kind="kafka_cut", victim=KAFKA, at=2.0),
        Planned(kind="kafka_grow", victim=KAFKA, at=3.5),
        Planned(kind="kafka_pause", victim=KAFKA, at=5.0, seconds=1.0),
        Planned(kind="kill", victim="worker-2", at=7.0, seconds=0.3),
        Planned(kind="kafka_kill", victim=KAFKA, at=8.0, seconds=0.2),
    ],
}


@pytest.mark.parametrize("pipe", ["rabbitmq", "kafka"])
async def test_a_short_campaign_with_workers_behind_a_broker_finds_nothing_wrong(
    pipe: PipeName,
) -> None:
    absent = missing() if pipe == "kafka" else None if RABBITMQ_PROGRAM else "there is no RabbitMQ"
    if absent is not None:
        assert not os.environ.get("CI"), absent
        pytest.skip(absent)
    setup = Setup(
        name=pipe, seed=1, seconds=13.0, rate=15.0, faults=FAULTS[pipe], mix=REMOTE, nodes=1,
        apis=1, workers=2, pipe=pipe, lease=8.0,
    )  # fmt: skip
    with Progress(setup.name) as progress:
        result = await run(setup, progress)
    assert not result.judgement.wrong
    struck = {fault.kind for fault in result.history.faults if fault.took_effect}
    assert struck == {each.kind for each in FAULTS[pipe]}
    assert {call.node for call in result.history.calls} >= {"worker-1", "worker-2"}
    assert result.judgement.acknowledged > 80
