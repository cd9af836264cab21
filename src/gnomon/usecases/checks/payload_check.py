"""Checks payloads against the schemas of their task types.

Compiled schemas are cached by their text. Small payloads are checked at once; a large one, or a
schema that has to be compiled first, may take longer and goes to a thread. The checker holds the
GIL while it works, so its work is bounded (see gnomon.payload_schemas.schema).
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from functools import partial

from gnomon.cron.job import Definition, payload_of, schedule_of
from gnomon.cron.template import Values
from gnomon.model.errors import InvalidPayload, InvalidSchema, InvalidTask
from gnomon.payload_schemas.schema import PayloadSchema
from gnomon.usecases.checks.rules import TenantRules

_AT_ONCE = 8 * 1024
_MOST_COMPILED = 256
_COMPILING = 1_000_000  # compiling a schema counts as so many steps
_ANY_RUN = "00000000-0000-7000-8000-000000000000"  # stands for an id that is not known yet


class _Compiled:
    """Cache of the schemas that were used last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schemas: OrderedDict[bytes, PayloadSchema] = OrderedDict()

    def known(self, text: bytes) -> PayloadSchema | None:
        with self._lock:
            schema = self._schemas.get(text)
            if schema is not None:
                self._schemas.move_to_end(text)
            return schema

    def get(self, text: bytes) -> PayloadSchema:
        schema = self.known(text)
        if schema is None:
            schema = PayloadSchema(text)
            with self._lock:
                self._schemas[text] = schema
                if len(self._schemas) > _MOST_COMPILED:
                    self._schemas.popitem(last=False)
        return schema


_compiled = _Compiled()


def payload_check_of(
    rules: TenantRules, tenant_id: str, task_type: str
) -> Callable[[bytes | None], int] | None:
    """The check of payloads of a type, if it has a schema. It raises InvalidPayload, with places
    under /payload, and may take a while: call it in a thread. It returns an upper bound of its
    steps, so that a batch can bound their sum."""
    text = rules.directory.schema(tenant_id, task_type)
    return None if text is None else partial(_steps, text)


def check_schema_in_thread(
    rules: TenantRules, tenant_id: str, task_type: str, payload: bytes | None
) -> int:
    """Does that check, where there is one."""
    check = payload_check_of(rules, tenant_id, task_type)
    return 0 if check is None else check(payload)


def _steps(text: bytes, payload: bytes | None) -> int:
    compiling = _COMPILING if _compiled.known(text) is None else 0
    _check(text, payload, "/payload")
    return compiling + _compiled.get(text).work(payload)


async def check_schema(
    rules: TenantRules,
    tenant_id: str,
    task_type: str,
    payload: bytes | None,
    pointer: str = "/payload",
) -> None:
    """Raises InvalidPayload, with places under `pointer`."""
    text = rules.directory.schema(tenant_id, task_type)
    if text is None:
        return
    if len(payload or b"") <= _AT_ONCE and _compiled.known(text) is not None:
        _check(text, payload, pointer)
    else:
        await asyncio.to_thread(_check, text, payload, pointer)


async def check_template_schema(
    rules: TenantRules, tenant_id: str, definition: Definition, job_id: str = ""
) -> None:
    """Checks the payload of a cron job's next run, as an example of all of them."""
    if rules.directory.schema(tenant_id, definition.task_type) is not None:
        example = _example(definition, job_id, rules.clock.now())
        await check_schema(rules, tenant_id, definition.task_type, example, "/payload_template")


def _check(text: bytes, payload: bytes | None, pointer: str) -> None:
    try:
        found = _compiled.get(text).mistakes(payload)
    except InvalidSchema as error:  # it was not stored by the API
        detail = f"the schema of its task type cannot be used: {error.pointer}: {error.detail}"
        raise InvalidTask(detail, pointer) from error
    if found:
        raise InvalidPayload(found).within(pointer)


def _example(definition: Definition, job_id: str, now: datetime) -> bytes | None:
    if definition.payload_template is None:
        return None
    schedule = schedule_of(definition, job_id)
    fire = schedule.next_after(now) or now  # a job that has ended can still be triggered
    values = Values(
        fire_time=fire,
        scheduled_for=fire,
        previous_fire_time=schedule.previous_before(fire),
        run_id=_ANY_RUN,
        job_name=definition.name,
    )
    return payload_of(definition).render(values)
