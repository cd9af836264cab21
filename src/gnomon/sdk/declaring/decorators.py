"""Types of the decorators: a handler keeps the signature of its function, for plain calls and for
submissions. A context that comes first is not submitted, so its type is without it."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from gnomon.sdk.declaring.handler import Handler, TaskFunction
from gnomon.sdk.executing.context import TaskContext

if TYPE_CHECKING:
    from gnomon.sdk.workflow.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=Handler[..., Any])
W = TypeVar("W", bound="Workflow[..., Any]")


class TaskDecorator(Protocol):
    """Makes a function a handler."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[TaskContext, P], R], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...


class CronDecorator(Protocol):
    """Declares a cron job of a handler, of a workflow, or of a function that becomes a handler."""

    @overload
    def __call__(self, function: H, /) -> H: ...
    @overload
    def __call__(self, function: W, /) -> W: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[TaskContext, P], R], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...
