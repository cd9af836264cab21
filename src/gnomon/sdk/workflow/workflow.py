"""A workflow of an app: a plain function that is called once, where it is declared, and draws the
graph; and the way to start runs of it."""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from gnomon.client.calls import workflows as calls
from gnomon.client.types.workflows import WorkflowSpec
from gnomon.model.duration import Duration, seconds_of
from gnomon.model.errors import GnomonError
from gnomon.model.targets.target import WorkflowTarget
from gnomon.sdk.declaring.cron import ScheduledWork
from gnomon.sdk.declaring.options import TaskDefaults, check_known
from gnomon.sdk.declaring.parameters import called, place_of, shape_of
from gnomon.sdk.errors import InvalidOption, InvalidWorkflow
from gnomon.sdk.submitting.arguments import WHOLE, Arguments
from gnomon.sdk.submitting.results import Results
from gnomon.sdk.values import encoded
from gnomon.sdk.workflow.definition import nodes_of
from gnomon.sdk.workflow.references import INPUT, ITEM, Mark, RunValue, marks
from gnomon.sdk.workflow.run_handle import ResultPlace, RunHandle
from gnomon.sdk.workflow.steps import StepGraph, declaring

if TYPE_CHECKING:
    from gnomon.sdk.app import Gnomon

P = ParamSpec("P")
R = TypeVar("R")


class WorkflowOptions(TypedDict, total=False):
    """The options of `@app.workflow`."""

    name: str
    deadline: Duration
    fail_fast: bool


class StartOptions(TypedDict, total=False):
    """The options of a start: under the same `key` there is one run; `version` is another than the
    newest."""

    key: str
    version: int


class Startable(Generic[P, R]):
    """What starts runs with the arguments of a workflow: the workflow, or the workflow with
    options. Arguments are checked by the call itself."""

    workflow: "Workflow[P, R]"
    start_options: StartOptions

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, RunHandle[R]]:
        """Starts a run. Raises InvalidArguments, ClientError."""
        call = self.workflow.call(args, kwargs, self.start_options)
        return self._start(call)

    def start_sync(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """Starts a run from synchronous code, and blocks until it is stored."""
        call = self.workflow.call(args, kwargs, self.start_options)
        return self._handle(self.workflow.app.sync_client.call(call))

    async def _start(self, call: Any) -> RunHandle[R]:
        return self._handle(await self.workflow.app.client.call(call))

    def _handle(self, run: Any) -> RunHandle[R]:
        return RunHandle(self.workflow.app, run.run_id, self.workflow.result)


class StartWithOptions(Startable[P, R]):
    """A workflow with options for the runs that are started through it."""

    def __init__(self, workflow: "Workflow[P, R]", options: StartOptions) -> None:
        """Raises InvalidOption."""
        try:
            check_known(options, tuple(StartOptions.__annotations__))
        except ValueError as error:
            raise InvalidOption(f"{workflow.name}: {error}") from None
        self.workflow = workflow
        self.start_options = options


class Workflow(Startable[P, R]):
    """A workflow: its definition, and the way to start runs of it."""

    app: "Gnomon"

    def __init__(
        self, function: Callable[P, R], options: Mapping[str, Any], names: Mapping[str, Any]
    ) -> None:
        """Calls the function to draw the graph; `names` are local ones that its annotations may
        use. Raises InvalidWorkflow."""
        self.workflow = self
        self.start_options = {}
        self.function = function
        self.place = place_of(function)
        self.name = options.get("name") or function.__name__
        self.__doc__ = function.__doc__
        try:
            _check_kind(function)
            check_known(options, tuple(WorkflowOptions.__annotations__))
            shape = shape_of(function, names)
            self.arguments = Arguments(self.name, _data(shape.parameters))
            with declaring() as graph:
                returned = self._draw()
            step_names, nodes = nodes_of(graph.steps)
            self.definition = WorkflowSpec(name=self.name, nodes=nodes, **_fields(options))
            self.result: ResultPlace[R] = ResultPlace(
                self.name, *_place(returned, graph, step_names), Results(self.name, shape.returns)
            )
        except (GnomonError, ValueError) as error:
            raise InvalidWorkflow(f"workflow {self.name} ({self.place}): {error}") from error
        if not nodes:
            raise InvalidWorkflow(f"workflow {self.name} ({self.place}) has no steps")

    def scheduled(self) -> ScheduledWork:
        """The workflow as a cron job runs it: each fire is a run."""
        target = WorkflowTarget(self.name)
        return ScheduledWork(
            self.name, self.place, TaskDefaults(), target, self.arguments.decode, self._template
        )

    def _template(self, payload: Any) -> Any:
        """The input of a run: a run needs all arguments, also those that have a default."""
        if not isinstance(payload, dict | None):
            return payload
        given = payload or {}
        kept = {name: _literal(value) for name, value in self.arguments.defaults.items()}
        return {**kept, **given} or None

    def _draw(self) -> object:
        function: Callable[..., object] = self.function
        return function(*_references(self.arguments.names))

    def __repr__(self) -> str:
        return f"<Workflow {self.name} of {self.place}>"

    def options(self, **options: Unpack[StartOptions]) -> StartWithOptions[P, R]:
        """The workflow with options for what is started through it. Raises InvalidOption."""
        return StartWithOptions(self, options)

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: StartOptions) -> Any:
        """The request that starts a run. Raises InvalidArguments."""
        given = msgspec.Raw(self.arguments.with_defaults(args, kwargs))
        return calls.start_workflow_run(
            self.name,
            input=given,
            version=options.get("version"),
            idempotency_key=options.get("key"),
        )


class WorkflowDecorator(Protocol):
    """Makes a function a workflow."""

    def __call__(self, function: Callable[P, R], /) -> Workflow[P, R]: ...


def _literal(value: Any) -> Any:
    """A value in which no template finds anything to fill in."""
    return msgspec.json.decode(encoded(value).replace(b"{{", b"{{{{"))


def _check_kind(function: Any) -> None:
    if not inspect.isfunction(function):
        raise InvalidWorkflow(f"{function!r} is no function: a workflow is made of one")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidWorkflow(
            f"{called(function)} only draws the graph, where it is declared: write it with def, "
            "without await and yield"
        )


def _data(parameters: Any) -> Any:
    for each in parameters:
        if not each.is_data:
            raise InvalidWorkflow(
                f"parameter {each.name}: a workflow is given its input alone; contexts and "
                "dependencies are for handlers"
            )
    return parameters


def _references(names: tuple[str, ...]) -> list[RunValue]:
    if names == (WHOLE,):
        return [RunValue(INPUT)]
    return [RunValue(INPUT, f".{name}") for name in names]


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "deadline" in options:
        fields["deadline_seconds"] = seconds_of(options["deadline"])
    if "fail_fast" in options:
        if not isinstance(options["fail_fast"], bool):
            raise InvalidWorkflow("fail_fast= must be True or False")
        fields["fail_fast"] = options["fail_fast"]
    return fields


def _place(returned: Any, graph: StepGraph, names: Mapping[int, str]) -> tuple[str | None, str]:
    """The step whose output a run results in, and the path in it; None: a run has no result."""
    if returned is None:
        return None, ""
    found: list[Mark] = marks(str(returned)) if isinstance(returned, RunValue) else []
    if not found or found[0].source in (INPUT, ITEM) or int(found[0].source) >= len(graph.steps):
        raise InvalidWorkflow(
            "it must return the output of a step, or a part of it, or None; other values are for "
            "handlers to make"
        )
    return names[int(found[0].source)], found[0].path
