"""Targets: what a task calls.

A kind of target is a class here, with everything that others ask of any target: `check`, `host`,
`by_handler`, `label`, `address`, `masked`, `unmasked` and `pointer`. Code that must know the kinds
apart uses `match` and ends in `assert_never`; so mypy names every place that must know a new kind.
"""

from typing import Annotated, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target_secrets import (
    MASK,
    masked_headers,
    masked_url,
    same_origin,
    unmasked_headers,
    unmasked_url,
)
from gnomon.model.targets.target_url import (
    MOST_HEADERS,
    MOST_URL_CHARACTERS,
    check_headers,
    check_url,
    host_in,
)

_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
_MOST_NAME_CHARACTERS = 200


class HttpTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="http"):
    """A webhook: `method` to `url`, the payload as the body."""

    url: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MOST_URL_CHARACTERS})]
    method: str = "POST"
    headers: Annotated[
        dict[str, str], msgspec.Meta(extra_json_schema={"maxProperties": MOST_HEADERS})
    ] = {}

    pointer: ClassVar[str] = "/url"  # to the field that says whom it calls
    by_handler: ClassVar[bool] = False  # whether a handler runs it, in the node or worker itself
    label: ClassVar[str] = "Webhook"  # for people

    @property
    def host(self) -> str:
        """The name or address that answers, with its port: calls to one host share a breaker and
        connections. Whatever was stored has one."""
        return host_in(self.url)

    @property
    def address(self) -> str | None:
        """The name or address to connect to, for the guard of addresses. None: there is none, or
        it cannot be read."""
        try:
            return urlsplit(self.url).hostname
        except ValueError:
            return None

    def masked(self) -> "HttpTarget":
        """The target as anybody may see it: without its secrets."""
        if not self.headers and "?" not in self.url:
            return self
        url, headers = masked_url(self.url), masked_headers(self.headers)
        if url == self.url and headers == self.headers:
            return self
        return msgspec.structs.replace(self, url=url, headers=headers)

    def unmasked(self, stored: "Target | None") -> "HttpTarget":
        """The target with the secrets of the stored one, where they came back as a mask. Raises
        InvalidTask where there are none to be put in their place."""
        if MASK not in self.url and MASK not in self.headers.values():
            return self
        if not isinstance(stored, HttpTarget) or not same_origin(stored.url, self.url):
            stored = None
        url = unmasked_url(self.url, None if stored is None else stored.url)
        headers = unmasked_headers(self.headers, {} if stored is None else stored.headers)
        if url == self.url and headers == self.headers:
            return self
        return msgspec.structs.replace(self, url=url, headers=headers)

    def check(self) -> None:
        """Raises ValueError, the field first, where it cannot be called. Not whenever one is made:
        what was stored under other rules must be readable still, or it would stop whoever claims
        it. So targets are checked when they come in, and again before they are called."""
        check_url(self.url)
        if self.method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(_METHODS)}; got {self.method!r}")
        check_headers(self.headers)


class PythonTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="python"):
    """A handler of an app, by its name or alias."""

    function: Annotated[
        str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": _MOST_NAME_CHARACTERS})
    ]

    pointer: ClassVar[str] = "/function"
    by_handler: ClassVar[bool] = True
    label: ClassVar[str] = "Handler"
    host: ClassVar[None] = None  # the node itself runs it
    address: ClassVar[None] = None

    def masked(self) -> "PythonTarget":
        return self  # it has no secrets

    def unmasked(self, _stored: "Target | None") -> "PythonTarget":
        return self

    def check(self) -> None:
        """Raises ValueError where no function can have this name."""
        if not 1 <= len(self.function) <= _MOST_NAME_CHARACTERS:
            raise ValueError(f"function must have 1 to {_MOST_NAME_CHARACTERS} characters")
        if not self.function.isprintable():
            raise ValueError("function must not contain control characters")


class WorkflowTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="workflow"):
    """A workflow of which a run of a cron job starts a run, and ends with it. Only cron jobs have
    such targets."""

    workflow: Annotated[
        str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": _MOST_NAME_CHARACTERS})
    ]
    version: int | None = None  # None: the newest at the time

    pointer: ClassVar[str] = "/workflow"
    by_handler: ClassVar[bool] = False
    host: ClassVar[None] = None
    address: ClassVar[None] = None

    def masked(self) -> "WorkflowTarget":
        return self  # it has no secrets

    def unmasked(self, _stored: "Target | None") -> "WorkflowTarget":
        return self

    def check(self) -> None:
        """Raises ValueError where no workflow can have this name."""
        if not 1 <= len(self.workflow) <= _MOST_NAME_CHARACTERS:
            raise ValueError(f"workflow must have 1 to {_MOST_NAME_CHARACTERS} characters")
        if not self.workflow.isprintable():
            raise ValueError("workflow must not contain control characters")
        if self.version is not None and self.version < 1:
            raise ValueError("version must be at least 1")


class NotificationTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="notification"
):
    """The channel of a subscription, which the node looks up when it sends. Requests cannot name
    it, and nodes call it for nobody but the notifier."""

    on_behalf_of: str  # the tenant whose rules and secrets hold for the call
    host: str  # as of other targets
    subscription_id: UUID | None = None  # None: the heartbeat of the settings

    pointer: ClassVar[str] = "/subscription_id"
    by_handler: ClassVar[bool] = False
    label: ClassVar[str] = "Notification"
    address: ClassVar[None] = None  # the guard is asked for the channel, when it is called

    def masked(self) -> "NotificationTarget":
        return self  # its secrets are those of the subscription

    def unmasked(self, _stored: "Target | None") -> "NotificationTarget":
        return self

    def check(self) -> None:
        """It was made by Gnomon itself."""


RequestTarget = (  # what requests can name
    HttpTarget | GrpcTarget | QueueTarget | PythonTarget | WorkflowTarget
)
Target = RequestTarget | NotificationTarget
