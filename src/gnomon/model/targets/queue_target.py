"""`queue` targets: one message to a topic of a broker, by a connection that the settings name."""

import re
from typing import Annotated, ClassVar

import msgspec

from gnomon.model.targets.target_secrets import MASK, masked_headers, unmasked_headers
from gnomon.model.targets.target_url import (
    MOST_HEADERS,
    MOST_URL_CHARACTERS,
    check_headers,
    host_in,
)
from gnomon.model.text import is_line

SCHEME = "queue"
_URL = re.compile(r"queue://[a-z0-9_-]{1,63}/[A-Za-z0-9._:/~-]{1,249}", re.ASCII)
_PATTERN = re.compile(r"queue://[a-z0-9_-]{1,63}/[A-Za-z0-9._:/~-]{0,249}\*?", re.ASCII)
_MOST_KEY_CHARACTERS = 200


class QueueTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="queue"):
    """A message: the payload, published to `queue://connection/topic`."""

    url: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MOST_URL_CHARACTERS})]
    # Messages with the same key stay in their order, where the broker has keys.
    key: Annotated[
        str | None, msgspec.Meta(extra_json_schema={"maxLength": _MOST_KEY_CHARACTERS})
    ] = None
    headers: Annotated[
        dict[str, str], msgspec.Meta(extra_json_schema={"maxProperties": MOST_HEADERS})
    ] = {}

    pointer: ClassVar[str] = "/url"
    by_handler: ClassVar[bool] = False
    label: ClassVar[str] = "Message"
    address: ClassVar[None] = None  # the settings name it, so it needs no guard

    @property
    def host(self) -> str:
        """The connection: its messages share a breaker."""
        return host_in(self.url)

    @property
    def connection(self) -> str:
        return self.url.split("/")[2]

    @property
    def topic(self) -> str:
        return self.url.split("/", 3)[3]

    def masked(self) -> "QueueTarget":
        headers = masked_headers(self.headers)
        return self if headers == self.headers else msgspec.structs.replace(self, headers=headers)

    def unmasked(self, stored: object) -> "QueueTarget":
        """As of webhooks: a secret is only sent by the connection that it was given for. Raises
        InvalidTask."""
        if MASK not in self.headers.values():
            return self
        kept = {}
        if isinstance(stored, QueueTarget) and stored.host == self.host:
            kept = stored.headers
        headers = unmasked_headers(self.headers, kept)
        return msgspec.structs.replace(self, headers=headers)

    def check(self) -> None:
        """Raises ValueError, the field first, where it cannot be published."""
        if not _URL.fullmatch(self.url):
            raise ValueError(
                "url must be queue://connection/topic: a connection of the settings, in small "
                "letters, and a topic of letters, digits and . _ : / ~ -, up to 249"
            )
        if self.key is not None and not (
            1 <= len(self.key) <= _MOST_KEY_CHARACTERS and is_line(self.key)
        ):
            raise ValueError(f"key must be a line of 1 to {_MOST_KEY_CHARACTERS} characters")
        check_headers(self.headers)


def is_topic_pattern(text: str) -> bool:
    """Whether an entry of a list of hosts is about topics: `queue://orders/created.*`."""
    return _PATTERN.fullmatch(text) is not None


def topic_allows(pattern: str, url: str) -> bool:
    """Whether a pattern, or how names begin and *, has this URL, or all of another pattern."""
    if pattern.endswith("*"):
        return url.startswith(pattern[:-1])
    return pattern == url
