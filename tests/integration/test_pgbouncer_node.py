"""Whole nodes, through PgBouncer: what of their tests leans most on the store."""

from tests.integration.test_node import (  # noqa: F401
    ends,
    node,
    now,
    receiver,
    test_a_claim_whose_answer_was_lost_is_given_back,
    test_a_failed_call_is_repeated_under_the_same_id,
    test_a_large_payload_reaches_its_function,
    test_a_node_that_stops_ends_what_runs_and_gives_back_the_rest,
    test_a_row_that_was_committed_late_runs,
    test_an_outcome_that_cannot_be_stored_harms_nobody_else,
    test_the_tasks_of_a_node_that_died_are_run_by_another,
    test_two_nodes_share_the_work_and_each_task_runs_once,
    test_what_always_fails_becomes_a_dead_letter_with_all_its_tries,
)
from tests.pooler import *  # noqa: F403
