"""Gnomon: a distributed task scheduler you run yourself.

What is listed here is what programs may import; everything below it may change at any time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gnomon.version import VERSION

if TYPE_CHECKING:
    from gnomon.client.client import Client
    from gnomon.client.errors import ApiProblem, ApiUnreachable, ClientError
    from gnomon.client.signature import verify as verify_webhook
    from gnomon.node.run.targets.python import Reject, Snooze
    from gnomon.node.run.task_context import TaskContext

__version__ = VERSION

__all__ = [
    "ApiProblem",
    "ApiUnreachable",
    "Client",
    "ClientError",
    "Reject",
    "Snooze",
    "TaskContext",
    "__version__",
    "verify_webhook",
]

# Imported when first asked for: `gnomon --help` and a program that only submits need few of them.
_HOMES = {
    "ApiProblem": ("gnomon.client.errors", "ApiProblem"),
    "ApiUnreachable": ("gnomon.client.errors", "ApiUnreachable"),
    "Client": ("gnomon.client.client", "Client"),
    "ClientError": ("gnomon.client.errors", "ClientError"),
    "Reject": ("gnomon.node.run.targets.python", "Reject"),
    "Snooze": ("gnomon.node.run.targets.python", "Snooze"),
    "TaskContext": ("gnomon.node.run.task_context", "TaskContext"),
    "verify_webhook": ("gnomon.client.signature", "verify"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gnomon' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
