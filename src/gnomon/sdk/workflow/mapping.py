"""Steps that are mapped over a list: one task for each of its elements."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from gnomon.sdk.errors import InvalidWorkflow
from gnomon.sdk.workflow.references import ITEM, RunValue
from gnomon.sdk.workflow.steps import Step, graph_here

T = TypeVar("T")
R = TypeVar("R")


def for_each(items: Sequence[T], step: Callable[[T], Step[R]]) -> Step[list[R]]:
    """A step for each element of a list, which a run will have, and whose output is the list of
    what they return: `for_each(listed.output, load.step)`, or
    `for_each(listed.output, lambda file: load.step(file, day))`. Raises InvalidWorkflow."""
    graph = graph_here("for_each")
    before = len(graph.steps)
    made = cast("Step[Any]", step(cast("T", RunValue(ITEM))))
    if not isinstance(made, Step) or len(graph.steps) != before + 1:
        raise InvalidWorkflow("for_each: the function must make one step, and return it")
    if "wait_for" in made.task.fields:
        raise InvalidWorkflow("for_each: a step that waits cannot be mapped")
    made.items = items
    return made
