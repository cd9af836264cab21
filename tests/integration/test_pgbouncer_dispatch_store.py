"""The node's side of the store, through PgBouncer."""

from tests.integration.test_dispatch_store import *  # noqa: F403
from tests.pooler import *  # noqa: F403
