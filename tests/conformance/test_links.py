"""The links of every broker against their contract."""

from collections.abc import Iterator

import pytest
from tests.brokers import ValkeyServer

from gnomon.clock import SystemClock, new_secret
from gnomon.pipe.meeting.link import Link, LinkEnd, link_to
from gnomon.settings import PipeSettings
from gnomon.testing.contracts.link import LinkContract


class _OfSettings(LinkContract):
    """Each test has a namespace of its own."""

    @pytest.fixture(autouse=True)
    def _apart(self) -> None:
        self.namespace = f"test-{new_secret(8).hex()}"

    def url(self) -> str:
        raise NotImplementedError

    def make_link(self, channel: str, end: LinkEnd) -> Link:
        settings = PipeSettings(url=self.url(), namespace=self.namespace)
        return link_to(settings, channel, SystemClock(), end)


class TestRedisLink(_OfSettings):
    @pytest.fixture(autouse=True)
    def _server(self, valkey: ValkeyServer) -> None:
        self._valkey = valkey

    def url(self) -> str:
        return self._valkey.url


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"), kept=False)
    server.start()
    yield server
    server.kill()
