"""Targets by their URL, for those who type one: its scheme says what is called."""

from collections.abc import Mapping
from typing import Any

from gnomon.model.targets.grpc_target import SCHEMES as GRPC
from gnomon.model.targets.queue_target import SCHEME as QUEUE

_KINDS = {**dict.fromkeys(GRPC, "grpc"), QUEUE: "queue"}


def kind_of(url: str) -> str:
    """The type of target that a URL is for; `http` where its scheme is none of ours."""
    return _KINDS.get(url.partition("://")[0].lower(), "http")


def document_of(
    url: str, method: str | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The target as the API takes it. Only webhooks have a method."""
    kind = kind_of(url)
    found: dict[str, Any] = {"type": kind, "url": url}
    if method is not None and kind == "http":
        found["method"] = method
    if headers:
        found["headers"] = dict(headers)
    return found
