"""Channels: their secrets are in no answer and in no log."""

import logging
from datetime import UTC, datetime

import pytest

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.node.run.targets.apprise import send_by_apprise
from gnomon.notify.notification import Notification, Purpose
from gnomon.notify.subscription import SlackChannel

TEST = Notification(
    subscription_id=None,
    subscription="ops",
    tenant=None,
    purpose=Purpose.TEST,
    at=datetime(2026, 3, 2, 12, tzinfo=UTC),
)


@pytest.mark.parametrize("end", ["/s3cr3t", "?token=s3cr3t", "#s3cr3t", "/a?b=s3cr3t"])
def test_a_chat_shows_its_host_alone(end: str) -> None:
    assert SlackChannel(f"https://chat.example:8443{end}").masked() == (
        "https://chat.example:8443/***"
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Apprise imports
@pytest.mark.parametrize("url", ["slack://SECRETTOKEN/bad", "nosuch://SECRETTOKEN/x"])
async def test_apprise_writes_no_url_into_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("apprise")
    with caplog.at_level(logging.DEBUG):
        outcome = await send_by_apprise(url, TEST)
    assert (outcome.kind, outcome.retryable) == (OutcomeKind.FAILED, False)
    assert "SECRETTOKEN" not in caplog.text
