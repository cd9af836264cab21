"""The function that receives a call, as the adapters of frameworks see it."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, get_args, get_origin

from gnomon.receive.webhooks import Received


class ReceivingFunction(NamedTuple):
    """A function with a parameter that is annotated `Received` or `Received[Payload]`."""

    parameter: str
    payload: Any  # the type in the brackets
    others: list[inspect.Parameter]  # which the framework fills


def endpoint_of(function: Callable[..., Any]) -> ReceivingFunction:
    """How to call the function. Raises TypeError where it takes no `Received`."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    taken = [each for each in parameters if _is_received(each.annotation)]
    if len(taken) != 1:
        raise TypeError(
            f"{function.__qualname__} must take one parameter that is annotated Received or "
            f"Received[Payload]; it takes {len(taken)}"
        )
    payload = next(iter(get_args(taken[0].annotation)), Any)
    return ReceivingFunction(
        taken[0].name, payload, [each for each in parameters if each is not taken[0]]
    )


def _is_received(annotation: Any) -> bool:
    return annotation is Received or get_origin(annotation) is Received
