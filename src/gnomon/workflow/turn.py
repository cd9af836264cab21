"""The turn of a node: what is worked out when it has come, from the values of its run."""

from collections.abc import Mapping

import msgspec

from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import HttpTarget, Target
from gnomon.workflow.condition import holds
from gnomon.workflow.template import CannotRender, TemplateValues, rendered, rendered_text
from gnomon.workflow.wait import NodeWait


class NodeTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of a node that wait for its turn, as they are stored."""

    reads: tuple[str, ...] = ()  # nodes whose outputs are needed
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    url: str | None = None
    headers: Mapping[str, str] | None = None
    condition: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    wait: NodeWait | None = None
    map: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # the list, of a mapped node
    task: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # of its elements

    @property
    def is_known(self) -> bool:
        """Whether the input of the run is all that it needs."""
        return not self.reads and self.condition is msgspec.UNSET and not self.is_held

    @property
    def is_held(self) -> bool:
        """Whether a node runs no task itself: it waits, or is mapped."""
        return self.wait is not None or self.map is not msgspec.UNSET


class NodeTurn(msgspec.Struct, frozen=True):
    """What a node has become when its turn came."""

    skipped: bool = False
    payload: bytes | None = None  # None: it stays as it is
    target: Target | None = None  # likewise


def is_skipped(template: NodeTemplate, values: TemplateValues) -> bool:
    """Whether its condition does not hold. Raises CannotRender."""
    return template.condition is not msgspec.UNSET and not holds(bytes(template.condition), values)


def turn_of(
    template: NodeTemplate, target: Target, values: TemplateValues, most_bytes: int
) -> NodeTurn:
    """Raises CannotRender."""
    if is_skipped(template, values):
        return NodeTurn(skipped=True)
    payload = None
    if template.payload is not msgspec.UNSET:
        payload = rendered(bytes(template.payload), values)
        if len(payload) > most_bytes:
            raise CannotRender(
                f"the payload would be {len(payload)} bytes; at most {most_bytes} are possible"
            )
    return NodeTurn(payload=payload, target=_target(template, target, values))


def _target(template: NodeTemplate, target: Target, values: TemplateValues) -> Target | None:
    if template.url is None and template.headers is None:
        return None
    if not isinstance(target, HttpTarget | GrpcTarget | QueueTarget):
        raise CannotRender("only URLs and headers have placeholders")
    url, headers = target.url, dict(target.headers)
    if template.url is not None:
        url = rendered_text(template.url, values, in_url=True)
    for name, text in (template.headers or {}).items():
        headers[name] = rendered_text(text, values)
    found = msgspec.structs.replace(target, url=url, headers=headers)
    try:
        found.check()
    except ValueError as error:
        raise CannotRender(f"the target would be wrong: {error}") from error
    return found
