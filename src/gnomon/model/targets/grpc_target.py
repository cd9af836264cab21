"""`grpc` targets: one unary call of a method, named by a URL."""

import base64
import binascii
import re
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

import msgspec

from gnomon.model.targets.target_secrets import (
    MASK,
    masked_headers,
    same_origin,
    unmasked_headers,
)
from gnomon.model.targets.target_url import (
    MOST_HEADERS,
    MOST_URL_CHARACTERS,
    check_grpc_url,
    check_headers,
    host_in,
    shown_url,
)

SCHEMES = ("grpc", "grpcs")
MOST_DESCRIPTOR_BYTES = 64 * 1024
_MOST_DESCRIPTOR_CHARACTERS = MOST_DESCRIPTOR_BYTES * 4 // 3 + 4
_METHOD = re.compile(r"/[A-Za-z_]\w*(\.[A-Za-z_]\w*)*/[A-Za-z_]\w*", re.ASCII)
_NAME = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_RESERVED = ("content-type", "user-agent")


class GrpcTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="grpc"):
    """A unary call: the payload is its request, as JSON. `grpc://host:port/package.Service/Method`
    is called without TLS, `grpcs://` with it."""

    url: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MOST_URL_CHARACTERS})]
    headers: Annotated[
        dict[str, str], msgspec.Meta(extra_json_schema={"maxProperties": MOST_HEADERS})
    ] = {}
    # A FileDescriptorSet in base64. None: the server is asked, by its reflection.
    descriptor_set: Annotated[
        str | None, msgspec.Meta(extra_json_schema={"maxLength": _MOST_DESCRIPTOR_CHARACTERS})
    ] = None

    pointer: ClassVar[str] = "/url"
    by_handler: ClassVar[bool] = False
    label: ClassVar[str] = "gRPC"

    @property
    def host(self) -> str:
        """As of webhooks, with which it shares the breaker of a host."""
        return host_in(self.url)

    @property
    def address(self) -> str | None:
        try:
            return urlsplit(self.url).hostname
        except ValueError:
            return None

    @property
    def method(self) -> str:
        """The path of the call: `/package.Service/Method`."""
        return urlsplit(self.url).path

    @property
    def secure(self) -> bool:
        return self.url.startswith("grpcs:")

    @property
    def http_url(self) -> str:
        """The URL of a webhook to the same host and port: lists of hosts are about both."""
        return f"http{self.url[len('grpc') :]}"

    def masked(self) -> "GrpcTarget":
        headers = masked_headers(self.headers)
        return self if headers == self.headers else msgspec.structs.replace(self, headers=headers)

    def unmasked(self, stored: object) -> "GrpcTarget":
        """As of webhooks. Raises InvalidTask."""
        if MASK not in self.headers.values():
            return self
        known = isinstance(stored, GrpcTarget) and same_origin(stored.url, self.url)
        kept = stored.headers if known and isinstance(stored, GrpcTarget) else {}
        headers = unmasked_headers(self.headers, kept)
        return msgspec.structs.replace(self, headers=headers)

    def check(self) -> None:
        """Raises ValueError, the field first, where it cannot be called."""
        check_grpc_url(self.url)
        parts = urlsplit(self.url)
        if not _METHOD.fullmatch(parts.path) or "?" in self.url or "#" in self.url:
            raise ValueError(
                "url must end in a method, as in grpc://host:50051/package.Service/Method; "
                f"got {shown_url(self.url)!r}"
            )
        check_headers(self.headers)
        for name, value in self.headers.items():
            _check_metadata(name.lower(), value)
        if self.descriptor_set is not None:
            descriptor_bytes(self.descriptor_set)


def descriptor_bytes(text: str) -> bytes:
    """The bytes of a descriptor set. Raises ValueError, the field first."""
    if len(text) > _MOST_DESCRIPTOR_CHARACTERS:
        raise ValueError(f"descriptor_set must be at most {MOST_DESCRIPTOR_BYTES} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        detail = f"descriptor_set must be a FileDescriptorSet of protoc in base64: {error}"
        raise ValueError(detail) from error


def _check_metadata(name: str, value: str) -> None:
    if not _NAME.fullmatch(name) or name.startswith("grpc-") or name in _RESERVED:
        raise ValueError(
            f"header {name!r} cannot be metadata of gRPC: names are letters, digits, _, - and ., "
            "and those of gRPC itself cannot be chosen"
        )
    if name.endswith("-bin"):
        raise ValueError(f"header {name!r} would be binary, and only text can be given")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"header {name!r} must be printable ASCII, as metadata of gRPC is")
