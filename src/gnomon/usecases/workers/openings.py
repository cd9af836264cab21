"""Checks what a session may handle: its key's types, queues and handlers bound it."""

from gnomon.access.grant_errors import TypeForbidden
from gnomon.access.principal import Principal
from gnomon.model.targets.allow_list import listed
from gnomon.model.targets.target import PythonTarget
from gnomon.pipe.http.messages import SessionOpening
from gnomon.usecases.checks.text_check import check_line


def check_opening(opening: SessionOpening, by: Principal) -> None:
    """Raises InvalidTask, and TypeForbidden where the key is not for a handler or queue of it."""
    check_line(opening.name, "/name")
    for field in ("handlers", "queues"):
        for index, name in enumerate(getattr(opening, field) or ()):
            check_line(name, f"/{field}/{index}")
    if opening.client is not None:
        check_line(opening.client, "/client")
    for name, value in (opening.labels or {}).items():
        check_line(name, "/labels")
        check_line(value, "/labels")
    _check_handlers(opening.handlers, by)
    _check_queues(opening.queues, by)


def _check_handlers(handlers: tuple[str, ...], by: Principal) -> None:
    allowed = by.task_types
    beyond = [] if allowed is None else sorted(set(handlers) - allowed)
    if beyond and allowed is not None:
        only = listed(sorted(allowed))
        raise TypeForbidden(f"has {listed(beyond)}, but your key is only for: {only}", "/handlers")
    refused = [name for name in handlers if not by.allow.allows(PythonTarget(name))]
    if refused:
        only = listed(by.allow.functions)
        raise TypeForbidden(f"has {listed(refused)}, but your key is only for: {only}", "/handlers")


def _check_queues(queues: tuple[str, ...] | None, by: Principal) -> None:
    if by.queues is None:
        return
    only = listed(sorted(by.queues))
    if not queues:
        raise TypeForbidden(f"must be given, as your key is only for: {only}", "/queues")
    beyond = sorted(set(queues) - by.queues)
    if beyond:
        raise TypeForbidden(f"has {listed(beyond)}, but your key is only for: {only}", "/queues")
