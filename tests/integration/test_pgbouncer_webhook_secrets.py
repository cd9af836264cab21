"""Webhook secrets, through PgBouncer: what of their tests leans most on the store."""

from tests.integration.test_webhook_secrets import (  # noqa: F401
    directory,
    node,
    receiver,
    test_a_call_of_another_tenant_is_rejected,
    test_a_look_at_the_directory_is_all_that_a_revocation_takes,
    test_of_many_processes_that_start_at_once_one_makes_the_secret,
    test_two_who_revoke_at_once_leave_one,
    test_two_who_rotate_at_once_make_one,
)
from tests.pooler import *  # noqa: F403
