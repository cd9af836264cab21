"""The store of tasks, through PgBouncer."""

from tests.integration.test_task_store import *  # noqa: F403
from tests.pooler import *  # noqa: F403
