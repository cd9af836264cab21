"""Words of notifications: readable, bounded, and harmless wherever they are shown."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.insight.severity import Severity
from gnomon.notify.grouping import GroupState, ToldGroup
from gnomon.notify.notification import Notification, Purpose, body_of
from gnomon.notify.subscription import AppriseChannel, EmailChannel, SlackChannel, WebhookChannel
from gnomon.notify.wording import chat_of, html_of, subject, text_of

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def told(
    state: GroupState = GroupState.NEW, summary: str = "", task_type: str = "mail.send"
) -> ToldGroup:
    return ToldGroup(
        state=state,
        kind="tasks.dead_lettered",
        severity=Severity.ERROR,
        tenant_id="acme",
        task_type=task_type,
        count=12,
        total=99,
        first_at=AT,
        last_at=AT,
        summary=summary,
    )


def notification(*groups: ToldGroup, name: str = "ops") -> Notification:
    return Notification(
        subscription_id=UUID(int=1),
        subscription=name,
        tenant="acme",
        purpose=Purpose.EVENTS,
        at=AT,
        sequence=3,
        groups=[*groups],
    )


def test_a_subject_says_what_matters_most() -> None:
    first = subject(notification(told(), told(GroupState.ONGOING)))
    assert first == "[gnomon] ERROR: tasks.dead_lettered of mail.send, 12 times and 1 more"
    over = subject(notification(told(GroupState.RESOLVED)))
    assert over == "[gnomon] Resolved: tasks.dead_lettered of mail.send"


def test_the_text_has_a_line_for_each_group() -> None:
    text = text_of(notification(told(summary="error=no route"), told(GroupState.RESOLVED)))
    lines = text.splitlines()
    assert lines[0].endswith(
        "new tasks.dead_lettered of mail.send, 12 times, 99 since 2026-03-02 12:00:00Z: "
        "error=no route"
    )
    assert "resolved" in lines[1]
    assert lines[-1] == "Subscription ops of acme"


def test_a_chat_mentions_nobody() -> None:
    text = chat_of(notification(told(summary="<!channel> <http://evil|x> & more")))
    assert "<" not in text
    assert "&lt;!channel&gt;" in text


def test_html_shows_text_as_it_is() -> None:
    page = html_of(notification(told(task_type="<script>alert(1)</script>")))
    assert "<script>" not in page


@given(st.text(), st.text(), st.text())
def test_a_subject_is_one_bounded_line(name: str, task_type: str, summary: str) -> None:
    made = notification(told(task_type=task_type, summary=summary), name=name)
    assert subject(made).isprintable()
    assert len(subject(made)) <= 150
    assert len(chat_of(notification(*[told(summary=summary)] * 50))) <= 3100


def test_the_body_of_a_webhook_is_a_cloud_event() -> None:
    body = msgspec.json.decode(body_of(notification(told()), "task-1"))
    assert body["specversion"] == "1.0"
    assert body["id"] == "task-1"
    assert body["source"] == "/tenants/acme/subscriptions/ops"
    assert body["data"]["status"] == "firing"
    assert body["data"]["groups"][0]["count"] == 12
    assert "token" not in body["data"]


def test_secrets_of_channels_are_masked() -> None:
    assert SlackChannel("https://hooks.slack.com/services/T0/B0/s3cr3t").masked() == (
        "https://hooks.slack.com/***"
    )
    assert AppriseChannel("ntfys://user:s3cr3t@ntfy.sh/topic").masked() == "ntfys://***"
    assert "s3cr3t" not in WebhookChannel("https://x.example/a?token=s3cr3t").masked()


@pytest.mark.parametrize(
    "address",
    [
        "", "a", "a@b", "@example.com", "a@example.com\nBcc: b@example.com", "a@example.com,b@c.de",
        "Bob <a@example.com>", "a b@example.com", "a@exa mple.com", "ä@example.com",
        "a@example.com\r", "x" * 250 + "@example.com",
    ],
)  # fmt: skip
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        EmailChannel(address).check()


@pytest.mark.parametrize("address", ["a@example.com", "a.b+c@mail.example.co.uk"])
def test_what_is_an_address(address: str) -> None:
    EmailChannel(address).check()
