"""Idempotency keys, through PgBouncer."""

from tests.integration.test_api_idempotency import *  # noqa: F403
from tests.pooler import *  # noqa: F403
