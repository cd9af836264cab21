"""Subscriptions: which events are told to whom, and by which channel. Pure."""

import re
from datetime import datetime
from email.errors import HeaderParseError
from email.headerregistry import Address
from typing import Annotated, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from gnomon.model.insight.severity import Severity
from gnomon.model.targets.target import HttpTarget
from gnomon.model.targets.target_secrets import MASK
from gnomon.notify.quiet_hours import QuietHours

MOST_SUBSCRIPTIONS = 50  # of a tenant, and of the installation
MOST_NAME_CHARACTERS = 100
MOST_PATTERNS = 50  # of kinds; and as many of each filter
MOST_PATTERN_CHARACTERS = 200
MOST_ADDRESS_CHARACTERS = 254  # that a mail server must take
MOST_URL_CHARACTERS = 2048
SHORTEST_DIGEST = 10.0
LONGEST_DIGEST = 24 * 3600.0

_KIND = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?|\*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}", re.IGNORECASE)
_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}

Url = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MOST_URL_CHARACTERS})]


class WebhookChannel(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="webhook"
):
    """A webhook, signed with the secrets of the subscriber's tenant."""

    url: Url
    headers: dict[str, str] = {}

    of_operators: ClassVar[bool] = False

    @property
    def host(self) -> str:
        return self.target.host

    @property
    def target(self) -> HttpTarget:
        return HttpTarget(url=self.url, headers=self.headers)

    def masked(self) -> str:
        return self.target.masked().url

    def check(self) -> None:
        _check_url(self.target)


class SlackChannel(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="slack"
):
    """An incoming webhook of Slack, Mattermost or any other that takes `{"text": …}`. Whoever knows
    its URL can write there, so nobody is shown more than the host."""

    url: Url

    of_operators: ClassVar[bool] = False

    @property
    def host(self) -> str:
        return self.target.host

    @property
    def target(self) -> HttpTarget:
        return HttpTarget(url=self.url)

    def masked(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/{MASK}"

    def check(self) -> None:
        _check_url(self.target)


class EmailChannel(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="email"
):
    """An address, which is written to once its owner has confirmed that."""

    address: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MOST_ADDRESS_CHARACTERS})]

    host: ClassVar[str] = "smtp"
    of_operators: ClassVar[bool] = False

    def masked(self) -> str:
        return self.address

    def check(self) -> None:
        detail = "address must be one e-mail address, such as ops@example.com"
        text = self.address
        if len(text) > MOST_ADDRESS_CHARACTERS or not text.isascii() or not text.isprintable():
            raise ValueError(detail)
        try:
            parsed = Address(addr_spec=text)
        except (HeaderParseError, ValueError, IndexError) as error:
            raise ValueError(detail) from error
        if parsed.addr_spec != text or "." not in parsed.domain.strip(".") or " " in text:
            raise ValueError(detail)


class AppriseChannel(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="apprise"
):
    """One of the services of Apprise, by its URL, which is a secret."""

    url: Url

    host: ClassVar[str] = "apprise"
    # Such a URL names hosts that no guard of addresses sees.
    of_operators: ClassVar[bool] = True

    def masked(self) -> str:
        return f"{self.url.partition('://')[0]}://{MASK}"

    def check(self) -> None:
        scheme, separator, rest = self.url.partition("://")
        if not separator or not rest or not _SCHEME.fullmatch(scheme):
            raise ValueError("url must be one of Apprise, such as ntfy://topic")
        if len(self.url) > MOST_URL_CHARACTERS or not self.url.isprintable() or " " in self.url:
            raise ValueError(
                f"url must have at most {MOST_URL_CHARACTERS} characters, without spaces"
            )


Channel = WebhookChannel | SlackChannel | EmailChannel | AppriseChannel


class NotedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as far as notifications need it."""

    id: str
    tenant_id: str
    kind: str
    severity: Severity
    at: datetime
    fingerprint: str
    is_end: bool = False  # of the condition that has this fingerprint
    has_end: bool = False  # another event tells when it is over
    count: int = 1  # that it stands for, so far: an event can grow
    task_type: str | None = None
    tags: tuple[str, ...] = ()
    cron_job: str | None = None  # its id, or name
    subject: str = ""  # the subscription that it is about, if any
    summary: str = ""


class SubscriptionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a subscription, and how they are gathered."""

    kinds: tuple[str, ...] = ("*",)  # names, or how they begin: tasks.*
    severity: Severity = Severity.WARNING  # the least
    task_types: tuple[str, ...] = ()  # empty: of all, and those that have none
    tags: tuple[str, ...] = ()
    cron_jobs: tuple[str, ...] = ()
    quiet_hours: QuietHours | None = None
    digest_seconds: float = 300.0
    resolve_seconds: float = (
        900.0  # without news a condition counts as over, where no event says so
    )
    all_tenants: bool = False  # of the installation: also the events of all tenants
    enabled: bool = True

    def wants(self, event: NotedEvent) -> bool:
        """Whether the subscription is told of the event."""
        return (
            any(_matches(pattern, event.kind) for pattern in self.kinds)
            and _RANKS[event.severity] >= _RANKS[self.severity]
            and (not self.task_types or event.task_type in self.task_types)
            and (not self.tags or bool({*self.tags}.intersection(event.tags)))
            and (not self.cron_jobs or event.cron_job in self.cron_jobs)
        )


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription as it is stored."""

    id: UUID
    tenant_id: str | None  # None: of the installation
    name: str
    channel: Channel
    rules: SubscriptionRules
    created_at: datetime
    created_by: str | None = None
    muted_until: datetime | None = None
    confirmed_at: datetime | None = None  # of an e-mail address
    failing_since: datetime | None = None  # the last notification could not be sent
    failure: str | None = None

    @property
    def may_be_sent(self) -> bool:
        """Whether its channel may be used: an address must be confirmed first."""
        return not isinstance(self.channel, EmailChannel) or self.confirmed_at is not None


def kind_pattern(text: str) -> str:
    """A pattern of kinds as it is stored. Raises ValueError."""
    if len(text) > MOST_PATTERN_CHARACTERS or not _KIND.fullmatch(text):
        raise ValueError("a kind is a name, such as tasks.dead_lettered, tasks.* or *")
    return text


def _matches(pattern: str, kind: str) -> bool:
    if pattern == "*":
        return True
    return kind.startswith(pattern[:-1]) if pattern.endswith(".*") else kind == pattern


def _check_url(target: HttpTarget) -> None:
    if len(target.url) > MOST_URL_CHARACTERS:
        raise ValueError(f"url must have at most {MOST_URL_CHARACTERS} characters")
    target.check()
