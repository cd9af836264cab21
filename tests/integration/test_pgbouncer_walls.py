"""Scopes of tenants, through PgBouncer: their role must not stay on a server that others get."""

from tests.integration.test_walls import (  # noqa: F401
    filled,
    single,
    test_a_scope_ends_with_its_transaction,
    test_a_statement_that_is_cancelled_leaves_no_role_behind,
    test_a_statement_without_its_tenant_sees_and_changes_no_foreign_row,
    test_what_is_cancelled_at_any_moment_leaves_no_role_behind,
)
from tests.pooler import *  # noqa: F403
