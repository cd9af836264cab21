"""The template of a task: as options, as a body for the API, and as lines for people."""

import base64
import itertools
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import values
from gnomon.cli.shared.groups import OptionGroup
from gnomon.cli.shared.output import span
from gnomon.cli.shared.values import given
from gnomon.model.targets.by_url import document_of, kind_of
from gnomon.model.tasks.task import DeliveryMode, KeepPayload

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json

DEFAULT_TYPE = "webhook"
_TYPES = {"http": DEFAULT_TYPE, "grpc": "grpc", "queue": "message"}  # of tasks that are given none


class PriorityName(StrEnum):
    """The lanes, as they are typed."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class TemplateOptions(OptionGroup):
    """Options of `gnomon submit` and `gnomon cron add`."""

    task_type: Annotated[
        str | None,
        typer.Option("--type", help="Type of the task; of a URL, else webhook, grpc or message."),
    ] = None
    method: Annotated[str | None, typer.Option(help="HTTP method; else POST.")] = None
    headers: Annotated[
        list[Any] | None,
        typer.Option(
            "--header",
            parser=values.headers,
            metavar="'NAME: VALUE'|@FILE",
            help="Repeatable. Put secret headers in a file, one per line (@- is stdin).",
        ),
    ] = None
    descriptor_set: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of a gRPC server without reflection: protoc's --descriptor_set_out.",
        ),
    ] = None
    message_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Of a message: those with one key stay in order."),
    ] = None
    priority: Annotated[
        PriorityName | None, typer.Option(case_sensitive=False, help="Priority; else medium.")
    ] = None
    delivery: Annotated[
        DeliveryMode | None, typer.Option(help="Delivery mode; else at_least_once.")
    ] = None
    max_retries: Annotated[
        int | None, typer.Option(min=0, help="Retries after the first execution.")
    ] = None
    timeout: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="DURATION",
            help="Timeout of one execution: 90, 90s, 5m, 2h.",
        ),
    ] = None
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Repeatable.")] = None
    queue: Annotated[str | None, typer.Option(help="Queue, for limits and worker pools.")] = None
    preemptible: Annotated[
        bool, typer.Option("--preemptible", help="A CRITICAL task may stop it; it then runs again.")
    ] = False
    keep_payload: Annotated[
        KeepPayload | None,
        typer.Option(help="Keep the payload of a finished task: always, failed only, or never."),
    ] = None
    sla: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="DURATION",
            help="Raise an event when it starts so long after it was due.",
        ),
    ] = None
    warn_after: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="DURATION",
            help="Raise an event when an execution has run for so long.",
        ),
    ] = None

    def body(self, url: str | None) -> "Json":
        """The fields that the API takes. Without a URL, it is for the handler of its task type."""
        if url is None and self.task_type is None:
            raise typer.BadParameter("give the URL to call, or the handler's --type")
        return given(
            task_type=self.task_type or _TYPES[kind_of(url or "")],
            target=self._target(url),
            priority=self.priority,
            delivery=self.delivery,
            retry_policy=None if self.max_retries is None else {"max_retries": self.max_retries},
            timeout_seconds=self.timeout,
            tags=self.tags or None,
            queue=self.queue,
            preemptible=self.preemptible or None,
            keep_payload=self.keep_payload,
            sla_seconds=self.sla,
            warn_after_seconds=self.warn_after,
        )

    def _target(self, url: str | None) -> "Json | None":
        headers = dict(itertools.chain.from_iterable(self.headers or []))
        if url is not None:
            if self.method is not None and kind_of(url) != "http":
                raise typer.BadParameter("--method is for webhooks")
            return document_of(url, self.method, headers) | self._described(url)
        if self.method is not None or headers or self.descriptor_set is not None:
            raise typer.BadParameter("--method, --header and --descriptor-set are for URLs")
        return None

    def _described(self, url: str) -> "Json":
        if self.message_key is not None:
            if kind_of(url) != "queue":
                raise typer.BadParameter("--message-key is for queue://")
            return {"key": self.message_key}
        if self.descriptor_set is None:
            return {}
        if kind_of(url) != "grpc":
            raise typer.BadParameter("--descriptor-set is for grpc:// and grpcs://")
        try:
            content = self.descriptor_set.read_bytes()
        except OSError as error:
            raise typer.BadParameter(f"{self.descriptor_set}: {error.strerror}") from error
        return {"descriptor_set": base64.b64encode(content).decode()}


def facts(shown: "Json") -> list[tuple[str, str]]:
    """The template of a task or a cron job that the API shows, line by line."""
    return [
        ("type", shown["task_type"]),
        ("target", _called(shown["target"])),
        ("priority", shown["priority"]),
        ("queue", shown["queue"] or ""),
        ("preemptible", "yes" if shown["preemptible"] else ""),
        ("keep payload", "" if shown["keep_payload"] == "always" else shown["keep_payload"]),
        ("delivery", shown["delivery"]),
        ("timeout", span(shown["timeout_seconds"])),
        ("sla", span(shown["sla_seconds"])),
        ("warn after", span(shown["warn_after_seconds"])),
        ("retries", _retries(shown["retry_policy"])),
        ("tags", " ".join(shown["tags"])),
    ]


def _retries(policy: "Json") -> str:
    most = policy["max_retries"]
    if not most:
        return "none"
    first, last = span(policy["base_seconds"]), span(policy["max_seconds"])
    pauses = f"{policy['backoff']}, {first} to {last}{' at random' if policy['jitter'] else ''}"
    also = "; also of HTTP 4xx" if policy["retry_client_errors"] else ""
    return f"{most}, {pauses}{also}"


def _called(target: "Json") -> str:
    if target["type"] == "http":
        return f"{target.get('method', 'POST')} {target['url']}"
    if target["type"] == "workflow":
        version = f", version {target['version']}" if target.get("version") else ""
        return f"workflow {target['workflow']}{version}"
    if "url" in target:
        return str(target["url"])
    return f"{target['type']} {target.get('function', '')}".strip()
