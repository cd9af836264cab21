"""Values of the task type store.

A task type needs no entry to be used. One with an entry has a JSON Schema, which the payloads of
new tasks must satisfy; processes see a change of it when their `TenantCache` does.
"""

from datetime import datetime

import msgspec

MOST_TASK_TYPES = 1_000  # of a tenant
MOST_SCHEMA_BYTES = 4 * 1024 * 1024  # of all of them: every API process keeps them in memory


class TaskTypeLine(msgspec.Struct, frozen=True):
    """A task type in a list."""

    name: str
    size: int  # of its schema, in bytes
    created_at: datetime
    updated_at: datetime


class TaskType(msgspec.Struct, frozen=True):
    """A task type with its schema, as it was written."""

    name: str
    schema: bytes
    created_at: datetime
    updated_at: datetime
