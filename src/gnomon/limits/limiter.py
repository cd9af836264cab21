"""Limiters: how many tasks may run at once, or start within a time.

A limiter is a tenant's, has a name, and applies to all of its tasks, or to those of one type or
queue. With a key, a JSON pointer into the payload, each value found there has a limit of its own.
What is limited together is a bucket. The values of the keys are kept on the task when it is
submitted (`limit_keys`), so that nobody has to read payloads to know what may start.
"""

import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from gnomon.model.tasks.flow import Flow

MOST_LIMITERS = 100  # of a tenant
MOST_KEY_CHARACTERS = 200


class Limiter(msgspec.Struct, frozen=True, kw_only=True):
    """At most `concurrency` at once; at most `rate` starts in any `per_seconds`."""

    tenant_id: str
    name: str
    task_type: str | None = None
    queue: str | None = None
    key: str | None = None  # a JSON pointer into the payload
    concurrency: int | None = None
    rate: int | None = None
    per_seconds: float = 1.0

    def applies(self, task_type: str, queue: str | None) -> bool:
        return (self.task_type is None or self.task_type == task_type) and (
            self.queue is None or self.queue == queue
        )


class Bucket(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Tasks that are limited together: a limiter, and a value of its key if it has one."""

    tenant_id: str
    limiter: str
    key: str = ""  # "": the limiter has no key, or the payload has no value there


def limit_keys(
    limiters: Iterable[Limiter], task_type: str, queue: str | None, payload: bytes | None
) -> str | None:
    """The limit keys of a task: the values of the keyed limiters that apply to it, as JSON with
    sorted names; None where there are none."""
    keyed = [m for m in limiters if m.key is not None and m.applies(task_type, queue)]
    if not keyed:
        return None
    found = dict.fromkeys(sorted(m.name for m in keyed), "")
    try:
        value = None if payload is None else msgspec.json.decode(payload)
        found |= {m.name: _text(_at(value, m.key or "")) for m in keyed}
    except (msgspec.DecodeError, RecursionError):
        pass  # JSON that can be kept and not read, such as 1e999: it counts as without a value
    return msgspec.json.encode(found).decode()


def buckets(limiters: Iterable[Limiter], flow: Flow) -> list[tuple[Limiter, Bucket]]:
    """The buckets that every task of the flow needs a permit of."""
    applying = [m for m in limiters if m.applies(flow.task_type, flow.queue)]
    if not applying:
        return []
    keys: dict[str, str] = {}
    if flow.limit_keys is not None:
        # What plain SQL wrote and nobody can read counts as without a value, too.
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            keys = msgspec.json.decode(flow.limit_keys, type=dict[str, str])
    return [
        (m, Bucket(m.tenant_id, m.name, "" if m.key is None else _text(keys.get(m.name))))
        for m in applying
    ]


def _at(value: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901); None where nothing is there."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _text(value: Any) -> str:
    """A value as the key of a bucket: text as it is, the rest as JSON, nothing as "". Long ones
    are cut: what begins alike is then limited together, which is never one too many."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:MOST_KEY_CHARACTERS].replace("\0", "")
