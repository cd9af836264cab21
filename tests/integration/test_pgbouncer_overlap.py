"""Overlap of runs, through PgBouncer."""

from tests.integration.test_overlap_store import *  # noqa: F403
from tests.pooler import *  # noqa: F403
