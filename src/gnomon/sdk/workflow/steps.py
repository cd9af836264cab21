"""Steps of a workflow, while it is declared.

A handler's `step(...)` adds one to the workflow that is being declared, with the arguments of a
plain call. An argument may be the output of another step, or a part of it: then this step comes
after that one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, Self, TypeVar, cast

from gnomon.client.types.workflows import OnNodeFailure, WorkflowRule
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.sdk.errors import InvalidWorkflow
from gnomon.sdk.workflow.references import RunValue, document_of

R = TypeVar("R")
T = TypeVar("T")
P = ParamSpec("P")

_RULES: tuple[WorkflowRule, ...] = ("all_succeeded", "all_done", "any_failed", "any_succeeded")
_FAILURES: tuple[OnNodeFailure, ...] = ("fail", "skip", "continue")


class StepTask(NamedTuple):
    """The task of a step: its fields, and its payload, in which references may stand."""

    fields: dict[str, Any]
    payload: Any


class StepGraph:
    """The steps of the workflow that is being declared, in their order."""

    def __init__(self) -> None:
        self.steps: list[Step[Any]] = []


_declaring: ContextVar[StepGraph | None] = ContextVar("gnomon_declaring", default=None)


@contextmanager
def declaring() -> Iterator[StepGraph]:
    """Within this block steps are added to the graph that it gives."""
    graph = StepGraph()
    token = _declaring.set(graph)
    try:
        yield graph
    finally:
        _declaring.reset(token)


def graph_here(what: str) -> StepGraph:
    """The graph that is being declared. Raises InvalidWorkflow where there is none."""
    graph = _declaring.get()
    if graph is None:
        raise InvalidWorkflow(f"{what} belongs in a function with @app.workflow")
    return graph


class Step(Generic[R]):
    """A step of a workflow. Its methods say more of it, and return the step itself."""

    def __init__(self, default_name: str, task: StepTask) -> None:
        """Adds it to the workflow that is being declared. Raises InvalidWorkflow."""
        graph = graph_here(f"the step {default_name}")
        self.number = len(graph.steps)
        self.default_name = default_name
        self.name: str | None = None  # as the workflow says
        self.task = task
        self.parents: list[Step[Any]] = []
        self.rule: WorkflowRule | None = None
        self.condition: dict[str, Any] | None = None
        self.failure: OnNodeFailure | None = None
        self.items: Any = None  # the list that it is mapped over
        self.compensation: StepTask | None = None
        graph.steps.append(self)

    def __repr__(self) -> str:
        return f"<Step {self.name or self.default_name}>"

    @property
    def output(self) -> R:
        """What the step returns, for arguments of other steps: the whole, or a part of it such as
        `charged.output.total`."""
        return cast("R", RunValue(str(self.number)))

    def named(self, name: str) -> Self:
        """Names the step; else it is called as its handler."""
        self.name = name
        return self

    def after(self, *steps: "Step[Any]") -> Self:
        """Starts this step after others, whose outputs it need not use."""
        self.parents += steps
        return self

    def when(self, rule: WorkflowRule) -> Self:
        """Says what must have become of the steps before: `all_succeeded`, unless it is said;
        `all_done`, `any_failed`, `any_succeeded`."""
        self.rule = _checked(rule, _RULES)
        return self

    def only_if(self, condition: bool) -> Self:
        """Skips the step in runs in which a comparison does not hold, such as
        `charged.output.total > 0`."""
        self.condition = document_of(condition)
        return self

    def on_failure(self, effect: OnNodeFailure) -> Self:
        """Says what follows once its retries are spent: `fail` holds the run up, unless another is
        said; `skip` skips what comes after it; `continue` goes on without an output."""
        self.failure = _checked(effect, _FAILURES)
        return self

    def compensate(self, handler: "Compensating[P]", *args: P.args, **kwargs: P.kwargs) -> Self:
        """Says what undoes the step where a run is rolled back after it has completed: a handler,
        with its arguments, which may be the output of this step and of those before it."""
        self.compensation = handler.step_task(args, kwargs)
        return self


class Compensating(Protocol[P]):
    """A handler, with options or without."""

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[Any]: ...
    def step_task(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepTask: ...


def webhook(name: str, url: str, payload: Any = None, *, method: str = "POST") -> Step[Any]:
    """A step that calls a URL, with this payload as the body."""
    fields = {"task_type": name, "callback_url": url, "callback_method": method}
    return Step(name, StepTask(fields, payload))


def publish(
    name: str,
    url: str,
    payload: Any = None,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Step[str]:
    """A step that publishes this payload to `queue://connection/topic`. Its output is what the
    broker calls the message."""
    target = QueueTarget(url, key, dict(headers or {}))
    return Step(name, StepTask({"task_type": name, "target": target}, payload))


def call_grpc(
    name: str,
    url: str,
    payload: Any = None,
    *,
    descriptor_set: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Step[str]:
    """A step that calls `grpc://host:port/package.Service/Method` with this payload. Its output is
    the answer, as JSON in a text. `descriptor_set`: in base64, where the server has no
    reflection."""
    target = GrpcTarget(url, dict(headers or {}), descriptor_set)
    return Step(name, StepTask({"task_type": name, "target": target}, payload))


def _checked(value: T, known: Sequence[T]) -> T:
    if value not in known:
        raise InvalidWorkflow(f"{value!r}: there are {', '.join(map(repr, known))}")
    return value
