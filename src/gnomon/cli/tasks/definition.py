"""What a task calls and how it is run, as it is typed, turned into what the API takes."""

from typing import TYPE_CHECKING

import typer

from gnomon.cli.shared.values import given

if TYPE_CHECKING:
    from gnomon.client.client import Json


def target(
    url: str | None, function: str | None, method: str | None, headers: dict[str, str]
) -> "Json":
    """The webhook or the function; whoever asks has made sure that it is one of them."""
    if url is not None:
        return given(type="http", url=url, method=method, headers=headers or None)
    if method is not None or headers:
        raise typer.BadParameter("--method and --header are for webhooks")
    return {"type": "python", "function": function}


def running(
    priority: str | None,
    delivery: str | None,
    max_retries: int | None,
    timeout: float | None,
    tags: list[str] | None,
) -> "Json":
    """How it is run."""
    return given(
        priority=priority,
        delivery=delivery,
        retry_policy=None if max_retries is None else {"max_retries": max_retries},
        timeout_seconds=timeout,
        tags=tags or None,
    )


def placed(queue: str | None, keep_payload: str | None, *, preemptible: bool) -> "Json":
    """Where it belongs, what it gives way to, and what it leaves behind."""
    return given(queue=queue, preemptible=preemptible or None, keep_payload=keep_payload)
