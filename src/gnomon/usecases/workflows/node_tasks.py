"""The task of a node, and the template of what waits for its turn."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.blanks import may_have_blanks
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.usecases.checks.payload_check import check_schema_in_thread
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.tasks.submit import allowed
from gnomon.usecases.tasks.task_requests import SubmitTask
from gnomon.usecases.workflows.node_waits import (
    WAITING,
    check_only_waits,
    until_references,
    wait_of,
)
from gnomon.usecases.workflows.workflow_requests import WorkflowNodeBody
from gnomon.workflow.condition import check_condition
from gnomon.workflow.graph import Graph
from gnomon.workflow.run import WorkflowNodeKind
from gnomon.workflow.template import CannotRender, Reference, TemplateValues, references
from gnomon.workflow.turn import NodeTemplate, turn_of
from gnomon.workflow.wait import NodeWait

_NOT_OF_NODES = (
    "execute_at", "delay_seconds", "jitter_seconds", "expires_at", "idempotency_key", "batch_id",
    "retry_of",
)  # fmt: skip
_TASK_FIELDS = SubmitTask.__struct_fields__


class Requested(NamedTuple):
    """Who asks for a run, when, and by which request."""

    by: Principal
    now: datetime
    origin: Origin | None


def kind_of(body: WorkflowNodeBody) -> WorkflowNodeKind:
    """The kind of a node."""
    if body.map is not msgspec.UNSET:
        return WorkflowNodeKind.MAPPED
    return WorkflowNodeKind.TASK if body.wait_for is None else WorkflowNodeKind.WAIT


class NodeTasks:
    """Makes the tasks of a run's nodes, each checked. Raises InvalidTask, with the place below the
    node."""

    def __init__(
        self, rules: TenantRules, requested: Requested, graph: Graph, values: TemplateValues | None
    ) -> None:
        self._rules = rules
        self._by, self._now, self._origin = requested
        self._graph = graph
        self._values = values  # None: the nodes are only checked
        self._places = {name: place for place, name in enumerate(graph)}
        self._above: Mapping[str, int] | None = None
        self.work = 0  # steps of payload checks so far

    def task_of(self, name: str, body: WorkflowNodeBody) -> tuple[Submission, bytes | None]:
        """The task, and the template of what its turn decides, if there is any."""
        check_no_times(body, "nodes", "they start when their turn has come, and once")
        fields = {each: getattr(body, each) for each in _TASK_FIELDS}
        fields["task_type"] = body.task_type or name
        if body.wait_for is not None:
            check_only_waits(body)
            fields["target"] = PythonTarget(WAITING)
        task = allowed(self._rules, self._by, SubmitTask(**fields), self._now, None, self._origin)
        if body.map is not msgspec.UNSET:
            return task, msgspec.json.encode(self._mapped(name, body, body.map, task))
        wait = None if body.wait_for is None else wait_of(body.wait_for)
        return self._with_template(task, self._template(name, body.if_, task, wait))

    def _mapped(
        self, name: str, body: WorkflowNodeBody, items: msgspec.Raw, task: Submission
    ) -> NodeTemplate:
        if body.wait_for is not None:
            raise InvalidTask("a node that waits cannot be mapped", "/map")
        if task.payload is None:
            task = msgspec.structs.replace(task, payload=b'"{{item}}"')
        found = self._template(name, body.if_, task, mapped=True) or NodeTemplate()
        read = self._checked(name, references(bytes(items), "/map"))
        kept = msgspec.structs.replace(task, payload=None)
        return msgspec.structs.replace(
            found,
            reads=tuple(dict.fromkeys((*found.reads, *read))),
            payload=msgspec.Raw(task.payload or b"null"),
            map=msgspec.Raw(bytes(items)),
            task=msgspec.Raw(msgspec.json.encode(kept)),
        )

    def compensation_of(self, name: str, body: SubmitTask) -> tuple[Submission, bytes | None]:
        """What undoes a node: it may read the results of the node and of those above it."""
        check_no_times(body, "nodes", "what undoes them starts in a rollback, and once")
        task = allowed(self._rules, self._by, body, self._now, None, self._origin)
        template = self._template(name, msgspec.UNSET, task, itself=True)
        return self._with_template(task, template)

    def _with_template(
        self, task: Submission, found: NodeTemplate | None
    ) -> tuple[Submission, bytes | None]:
        if found is not None and found.is_known:
            task, found = self._filled(task, found), None
        whole = found is None or (found.payload is msgspec.UNSET and found.wait is None)
        if whole and self._values is not None:
            self.work += check_schema_in_thread(
                self._rules, task.tenant_id, task.task_type, task.payload
            )
        return task, None if found is None else msgspec.json.encode(found)

    def _template(
        self,
        name: str,
        if_: msgspec.Raw | msgspec.UnsetType,
        task: Submission,
        wait: NodeWait | None = None,
        *,
        itself: bool = False,
        mapped: bool = False,
    ) -> NodeTemplate | None:
        check = partial(self._checked, name, itself=itself, mapped=mapped)
        read = check(references(task.payload, "/payload"))
        payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
        if task.payload is not None and may_have_blanks(task.payload):
            payload = msgspec.Raw(task.payload)
        condition: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
        if if_ is not msgspec.UNSET:
            text = bytes(if_)
            check_condition(text, "/if")
            read += self._checked(name, references(text, "/if"), itself=itself)
            condition = msgspec.Raw(text)
        url, headers = _templates_of_target(task, read, check)
        if wait is not None:
            read += check(until_references(wait))
        found = NodeTemplate(
            tuple(dict.fromkeys(read)), payload, url, headers or None, condition, wait
        )
        return None if found == NodeTemplate() else found

    def _filled(self, task: Submission, template: NodeTemplate) -> Submission:
        """The task, where all that it needs is known already."""
        if self._values is None:
            return task
        try:
            turn = turn_of(template, task.target, self._values, self._rules.max_payload_bytes)
        except CannotRender as error:
            raise InvalidTask(str(error), "/payload") from error
        if turn.payload is not None:
            task = msgspec.structs.replace(task, payload=turn.payload)
        if turn.target is not None:
            task = msgspec.structs.replace(task, target=turn.target)
        return task

    def _checked(
        self, name: str, found: Sequence[Reference], *, itself: bool = False, mapped: bool = False
    ) -> list[str]:
        """The nodes that are read. All of them must be above the node, or what undoes it reads the
        node itself: else nobody knows whether they have ended."""
        if not mapped and any(each.is_of_element for each in found):
            raise InvalidTask("{{item}} and {{index}} are for the payload of a mapped node", "")
        read = [each.node for each in found if each.node is not None]
        for each in read:
            if each not in self._places:
                raise InvalidTask(f"there is no node {each!r} to read the result of", "/payload")
            if not (itself and each == name) and not self._is_above(each, name):
                detail = f"reads the result of {each!r}, and does not wait for it: add it to after"
                raise InvalidTask(detail, "/after")
        return read

    def _is_above(self, parent: str, name: str) -> bool:
        if parent in self._graph[name].after:
            return True
        if self._above is None:
            self._above = _above(self._graph, self._places)
        return bool(self._above[name] >> self._places[parent] & 1)


def check_no_times(body: SubmitTask, whom: str, why: str) -> None:
    """Raises InvalidTask for what no task can have that waits for others."""
    for field in _NOT_OF_NODES:
        if getattr(body, field) not in (None, msgspec.UNSET):
            raise InvalidTask(f"is not for {whom}: {why}", f"/{field}")


def _templates_of_target(
    task: Submission, read: list[str], check: Callable[[Sequence[Reference]], list[str]]
) -> tuple[str | None, dict[str, str]]:
    """The URL and the headers that have placeholders; adds the nodes that these read."""
    target = task.target
    if not isinstance(target, HttpTarget | GrpcTarget | QueueTarget):
        return None, {}
    url = None
    if "{{" in target.url:
        if "{{" in urlsplit(target.url).netloc:
            raise InvalidTask("the host of a webhook must be known beforehand", "/target/url")
        read += check(references(msgspec.json.encode(target.url), "/target/url"))
        url = target.url
    headers = {key: text for key, text in target.headers.items() if "{{" in text}
    read += check(references(msgspec.json.encode(headers), "/target/headers"))
    return url, headers


def _above(graph: Graph, places: Mapping[str, int]) -> dict[str, int]:
    """For each node the nodes that it waits for, directly or not, as bits."""
    above: dict[str, int] = {}
    open_ = list(graph)
    while open_:
        name = open_[-1]
        missing = [parent for parent in graph[name].after if parent not in above]
        if name in above:
            open_.pop()
        elif missing:
            open_ += missing
        else:
            bits = 0
            for parent in graph[name].after:
                bits |= above[parent] | 1 << places[parent]
            above[name] = bits
            open_.pop()
    return above
