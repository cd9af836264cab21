"""Bulk operations, through PgBouncer: settings and locks of a chunk are of its transaction."""

from tests.integration.test_bulk_operations import (  # noqa: F401
    test_a_stopped_one_changes_nothing_more,
    test_cancel_reschedule_and_delete,
    test_discarded_dead_letters_are_kept_as_such,
    test_ten_thousand_dead_letters_are_retried_by_error_while_new_ones_come,
    test_the_number_is_confirmed,
    test_two_holders_touch_no_task_twice,
    test_two_operations_on_the_same_tasks,
)
from tests.pooler import *  # noqa: F403
