"""The planning of cron jobs, through PgBouncer."""

from tests.integration.test_planning import *  # noqa: F403
from tests.pooler import *  # noqa: F403
