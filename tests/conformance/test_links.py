"""Links through Redis against their contract; `integration` has those of RabbitMQ and Kafka."""

import pytest
from tests.brokers import ValkeyServer

from gnomon.clock import SystemClock, new_secret
from gnomon.pipe.meeting.link import LinkEnd, PipeLink, link_to
from gnomon.settings import PipeSettings
from gnomon.testing.contracts.link import LinkContract


class LinksThroughBroker(LinkContract):
    """Each test has a namespace of its own."""

    @pytest.fixture(autouse=True)
    def _apart(self, broker_url: str) -> None:
        self.namespace = f"test-{new_secret(8).hex()}"
        self._url = broker_url

    def make_link(self, channel: str, end: LinkEnd) -> PipeLink:
        settings = PipeSettings(url=self._url, namespace=self.namespace)
        return link_to(settings, channel, SystemClock(), end)


class TestRedisLink(LinksThroughBroker):
    @pytest.fixture
    def broker_url(self, valkey: ValkeyServer) -> str:
        return valkey.url
