"""Section `pipe`: the broker through which remote workers and gateways meet."""

import re
from enum import StrEnum
from ipaddress import ip_address
from typing import ClassVar
from urllib.parse import urlsplit

from gnomon.settings.section import Section

_NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class MeetingPlace(StrEnum):
    """The brokers. The name is that of the extra with its client."""

    REDIS = "redis"

    @property
    def label(self) -> str:
        """As people write it."""
        return {"redis": "Redis"}[self]

    @property
    def client(self) -> str:
        """The module of its client."""
        return {"redis": "redis"}[self]

    @property
    def chore(self) -> str:
        """The chore that reaches workers through it."""
        return f"{self}-pipe"


_SCHEMES = {"redis": MeetingPlace.REDIS, "rediss": MeetingPlace.REDIS}


class PipeSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "pipe"

    url: str | None = None  # redis:// or rediss:// (TLS), with user and password where it has any
    ca_file: str | None = None  # of PEM; None: the authorities of the system
    certificate_file: str | None = None  # by which the server knows this process
    key_file: str | None = None
    namespace: str = "gnomon"  # how the names of all channels begin
    silence_seconds: float = 5.0  # without an answer for so long, the server is taken for away

    def __post_init__(self) -> None:
        rule = f"start with one of {', '.join(f'{each}://' for each in _SCHEMES)} and name a host"
        self.require("url", rule, holds=self.url is None or _is_url(self.url))
        both = (self.certificate_file is None) == (self.key_file is None)
        self.require("key_file", "be set with certificate_file, and not without", holds=both)
        named = _NAMESPACE.fullmatch(self.namespace) is not None
        self.require("namespace", "have up to 100 letters, digits and _ . : -", holds=named)
        rule = "be between 1 and 60"
        self.require("silence_seconds", rule, holds=1 <= self.silence_seconds <= 60)

    @property
    def place(self) -> MeetingPlace:
        """The broker; of settings with a url."""
        return _SCHEMES[urlsplit(self.url or "").scheme]

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, as far as its URL says."""
        host = urlsplit(self.url or "").hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def where(self) -> str:
        """The server, without secrets."""
        parts = urlsplit(self.url or "")
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
