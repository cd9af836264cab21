"""Messages and mails whose connection took longer than the lease: nothing is sent."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from tests.brokers import ValkeyServer, free_port
from tests.integration.notifying import Mailbox
from tests.unit.node.test_late_calls import Trust, of
from tests.unit.notify.test_channel_secrets import TEST

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.node.run.targets.mail import Mailer
from gnomon.node.run.targets.queue.caller import QueueCaller
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.settings import NotifySettings
from gnomon.settings.queues import QueueConnection


@pytest.fixture
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"), kept=False)
    server.start()
    yield server
    server.kill()


async def test_a_message_whose_redis_took_too_long(valkey: ValkeyServer) -> None:
    own = len(valkey.client.client_list())
    ended = True

    def holds() -> bool:
        """Until Redis has another connection."""
        return not ended or len(valkey.client.client_list()) == own

    made, run = of(QueueTarget("queue://events/orders"))
    publisher = QueuePublisher({"events": QueueConnection(valkey.url, tenants={"*": ("*",)})})
    caller = QueueCaller(SystemClock(), None, publisher, 10, holds)
    assert await caller.call(made, b"{}", run) is None
    assert valkey.client.xlen("orders") == 0
    ended = False
    outcome = await caller.call(made, b"{}", run)
    assert outcome is not None
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert len(valkey.client.client_list()) == own + 1  # the connection of before
    await publisher.close()


class SlowServer(Controller):
    """A mail server that takes longer to connect to than the lease."""

    def __init__(self, mailbox: Mailbox, trust: Trust) -> None:
        super().__init__(mailbox, hostname="127.0.0.1", port=free_port())
        self._trust = trust

    def factory(self) -> Any:
        self._trust.held = False
        made: Any = super()
        return made.factory()


async def test_a_mail_whose_server_took_too_long() -> None:
    trust, mailbox = Trust(), Mailbox()
    server = SlowServer(mailbox, trust)
    server.start()
    trust.held = True  # it was connected to, to see that it is there
    settings = NotifySettings(
        smtp_host="127.0.0.1", smtp_port=server.port, smtp_tls="none", sender="g@example.com"
    )
    try:
        late = Mailer(settings, SystemClock(), trust.holds)
        assert await late.send("a@example.com", TEST, "1") is None
        assert mailbox.messages == []
        outcome = await Mailer(settings, SystemClock()).send("a@example.com", TEST, "1")
        assert outcome is not None
        assert outcome.kind is OutcomeKind.SUCCEEDED
        assert len(mailbox.messages) == 1
    finally:
        server.stop()
