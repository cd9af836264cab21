"""The definition of a workflow, from its steps: names, edges, and placeholders for references."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gnomon.client.types.workflows import WaitSpec, WorkflowNodeSpec, WorkflowTaskSpec
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.sdk.errors import InvalidWorkflow
from gnomon.sdk.workflow.references import INPUT, ITEM, Mark, marked, marks
from gnomon.sdk.workflow.steps import Step, StepTask

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")

Names = Mapping[int, str]  # of steps, by their numbers


def step_names(steps: Sequence[Step[Any]]) -> Names:
    """What the steps are called: as was said, else as their handlers, with a number from the second
    on. Raises InvalidWorkflow."""
    names: dict[int, str] = {}
    for step in steps:
        if step.name is not None:
            if not isinstance(step.name, str) or _NAME.fullmatch(step.name) is None:
                raise InvalidWorkflow(
                    f"a step cannot be called {step.name!r}: use letters, digits, _ and -, and no "
                    "digit first"
                )
            if step.name in names.values():
                raise InvalidWorkflow(f"two steps are called {step.name!r}")
            names[step.number] = step.name
    for step in steps:
        if step.name is None:
            name = _FOREIGN.sub("_", step.default_name)
            name = f"_{name}" if name[:1].isdigit() or name[:1] == "-" else name
            names[step.number] = _free(name, set(names.values()))
    return names


def nodes_of(steps: Sequence[Step[Any]]) -> tuple[Names, dict[str, WorkflowNodeSpec]]:
    """The names of the steps, and the nodes of the definition. Raises InvalidWorkflow."""
    names = step_names(steps)
    return names, {names[step.number]: _node(step, names) for step in steps}


def _node(step: Step[Any], names: Names) -> WorkflowNodeSpec:
    rendered = Rendering(step, names)
    fields = rendered.task(step.task)
    condition = None if step.condition is None else rendered.document(step.condition)
    items = rendered.items()
    compensate = None
    if step.compensation is not None:
        undoing = Rendering(step, names, itself=True)
        compensate = WorkflowTaskSpec(**undoing.task(step.compensation))
    parents = [*(names.get(parent.number, "") for parent in step.parents), *rendered.parents]
    if "" in parents:
        raise InvalidWorkflow(f"{names[step.number]}: after(): a step of another workflow")
    return WorkflowNodeSpec(
        **fields,
        after=tuple(dict.fromkeys(parents)),
        when=step.rule,
        condition=condition,
        on_failure=step.failure,
        map=items,
        compensate=compensate,
    )


class Rendering:
    """Writes the parts of one node, and gathers the steps whose outputs they use."""

    def __init__(self, step: Step[Any], names: Names, *, itself: bool = False) -> None:
        self._itself = itself  # whether the output of the step itself may be used
        self.parents: list[str] = []
        self._step = step
        self._in_items = False
        self._names = names

    def task(self, task: StepTask) -> dict[str, Any]:
        """The fields of a task, with its payload."""
        payload = None if task.payload is None else self.document(task.payload)
        plain = {name: self._field(value) for name, value in task.fields.items()}
        return {**plain, "payload": payload}

    def _field(self, value: Any) -> Any:
        if isinstance(value, WaitSpec) and value.until is not None:
            return msgspec.structs.replace(value, until=self._text(value.until))
        if isinstance(value, GrpcTarget | QueueTarget):
            return self._target(value)
        return self._text(value) if isinstance(value, str) else value

    def _target(self, target: GrpcTarget | QueueTarget) -> GrpcTarget | QueueTarget:
        headers = {name: self._text(text) for name, text in target.headers.items()}
        found = msgspec.structs.replace(target, headers=headers)
        if self._text(target.url) != target.url:
            raise InvalidWorkflow(
                f"{self._name}: the URL must be known beforehand; outputs can stand in the payload "
                "and in headers"
            )
        try:
            found.check()
        except ValueError as error:
            raise InvalidWorkflow(f"{self._name}: {error}") from error
        return found

    def document(self, value: Any) -> Any:
        """A value as JSON, with placeholders."""
        try:
            return self._filled(msgspec.json.decode(marked(value)))
        except (TypeError, ValueError) as error:
            raise InvalidWorkflow(f"{self._name}: {error}") from error

    def items(self) -> Any:
        """The list that the step is mapped over."""
        if self._step.items is None:
            return msgspec.UNSET
        self._in_items = True
        return self.document(self._step.items)

    @property
    def _name(self) -> str:
        return self._names[self._step.number]

    def _filled(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case list():
                return [self._filled(each) for each in value]
            case dict():
                return {self._text(key): self._filled(each) for key, each in value.items()}
        return value

    def _text(self, text: str) -> str:
        return "".join(self._pieces(text))

    def _pieces(self, text: str) -> Iterator[str]:
        done = 0
        for mark in marks(text):
            yield _literal(text[done : mark.start])
            yield self._placeholder(mark)
            done = mark.end
        yield _literal(text[done:])

    def _placeholder(self, mark: Mark) -> str:
        if mark.source == INPUT:
            return f"{{{{run.input{mark.path}}}}}"
        if mark.source == ITEM:
            if self._step.items is None or self._in_items:
                raise InvalidWorkflow(f"{self._name}: an element is for the step in for_each()")
            return f"{{{{item{mark.path}}}}}"
        name = self._names.get(int(mark.source))
        if name is None:
            raise InvalidWorkflow(f"{self._name}: an output of another workflow")
        if name == self._name and not self._itself:
            raise InvalidWorkflow(f"{name}: it uses its own output")
        self.parents.append(name)
        return f"{{{{nodes.{name}.result{mark.path}}}}}"


def _literal(text: str) -> str:
    return text.replace("{{", "{{{{")


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found
