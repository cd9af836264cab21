"""The gate of cron jobs, through PgBouncer."""

from tests.integration.test_gate import *  # noqa: F403
from tests.pooler import *  # noqa: F403
