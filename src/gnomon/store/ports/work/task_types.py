"""Values of the task type store.

A task type needs no entry to be used. One with an entry has a JSON Schema, which the payloads of
new tasks must satisfy, and defaults for what their submission leaves out; processes see a change
of it when their `TenantCache` does.
"""

from datetime import datetime

import msgspec

MOST_TASK_TYPES = 1_000  # of a tenant
MOST_SCHEMA_BYTES = 4 * 1024 * 1024  # of all of them: every API process keeps them in memory
ANY_PAYLOAD = b"true"  # the JSON Schema that everything satisfies


class TaskTypeLine(msgspec.Struct, frozen=True):
    """A task type in a list."""

    name: str
    size: int  # of its schema, in bytes
    defaults: str | None  # JSON
    created_at: datetime
    updated_at: datetime


class TaskType(msgspec.Struct, frozen=True):
    """A task type with its schema and its defaults, as they were written."""

    name: str
    schema: bytes
    defaults: bytes | None
    created_at: datetime
    updated_at: datetime
