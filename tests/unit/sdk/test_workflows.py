"""Workflows are plain functions: what they draw, and what cannot be drawn."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from gnomon import (
    Gnomon,
    InvalidArguments,
    InvalidOption,
    InvalidWorkflow,
    TaskContext,
    all_of,
    any_of,
    call_grpc,
    is_in,
    publish,
    webhook,
)

app = Gnomon()


@dataclass
class Order:
    id: str
    lines: list[str]


@dataclass
class Reservation:
    id: str
    total: int


@app.task(retries=2, queue="stock")
async def reserve(order: Order) -> Reservation:
    return Reservation(order.id, len(order.lines))


@app.task
async def charge(order_id: str, cents: int) -> int:
    return cents


@app.task(name="parcel.ship")
def ship(line: str, number: int = 0) -> str:
    return f"{line}{number}"


def drawn(function: Any, **options: Any) -> dict[str, Any]:
    """The nodes that a function draws, as JSON."""
    workflow = Gnomon().workflow(**options)(function)
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(workflow.definition))
    nodes: dict[str, Any] = document["nodes"]
    return nodes


def test_an_output_as_an_argument_draws_the_edge() -> None:
    def order(order: Order) -> int:
        reserved = reserve.step(order)
        return charge.step(order.id, cents=reserved.output.total).output

    assert drawn(order) == {
        "reserve": {
            "task_type": "reserve",
            "payload": {"order": "{{run.input.order}}"},
            "retry_policy": {"max_retries": 2},
            "queue": "stock",
        },
        "charge": {
            "task_type": "charge",
            "payload": {
                "order_id": "{{run.input.order.id}}",
                "cents": "{{nodes.reserve.result.total}}",
            },
            "after": ["reserve"],
        },
    }


def test_an_output_within_a_value_or_a_text_draws_it_too() -> None:
    def order(id: str) -> None:  # noqa: A002 - a name as people choose
        first = ship.step(id).named("first")
        reserve.step(Order(id=first.output, lines=[f"{{{{ {first.output}!", "{{{"]))

    nodes = drawn(order)
    assert nodes["reserve"]["after"] == ["first"]
    assert nodes["reserve"]["payload"] == {
        "order": {
            "id": "{{nodes.first.result}}",
            "lines": ["{{{{ {{nodes.first.result}}!", "{{{{{"],
        }
    }


def test_steps_are_named_by_their_handlers_and_numbered() -> None:
    def several(line: str) -> None:
        ship.step(line)
        ship.step(line)
        ship.step(line).named("parcel_ship_2")

    assert list(drawn(several)) == ["parcel_ship", "parcel_ship_3", "parcel_ship_2"]


def test_what_is_said_of_a_step() -> None:
    def order(order: Order) -> None:
        reserved = reserve.options(queue="other", timeout="5s").step(order)
        charged = charge.step("o", 7).after(reserved).on_failure("skip")
        ship.step("l").after(charged, reserved).when("all_done")
        told = webhook("tell", f"https://h/{order.id}", {"sum": charged.output})
        told.only_if(all_of(charged.output > 0, any_of(order.id == "a", is_in("b", order.lines))))

    nodes = drawn(order)
    assert nodes["reserve"]["queue"] == "other"
    assert nodes["reserve"]["timeout_seconds"] == 5
    assert "after" not in nodes["reserve"]
    assert nodes["charge"]["after"] == ["reserve"]
    assert nodes["charge"]["on_failure"] == "skip"
    assert nodes["parcel_ship"]["after"] == ["charge", "reserve"]
    assert nodes["parcel_ship"]["when"] == "all_done"
    assert nodes["tell"]["callback_url"] == "https://h/{{run.input.order.id}}"
    assert nodes["tell"]["after"] == ["charge"]
    assert nodes["tell"]["if"] == {
        "all": [
            {"left": "{{nodes.charge.result}}", "op": ">", "right": 0},
            {
                "any": [
                    {"left": "{{run.input.order.id}}", "op": "==", "right": "a"},
                    {"left": "b", "op": "in", "right": "{{run.input.order.lines}}"},
                ]
            },
        ]
    }


def test_steps_publish_and_call_grpc() -> None:
    def order(order: Order) -> None:
        charged = charge.step("o", 7)
        publish(
            "tell", "queue://orders/paid", {"sum": charged.output}, key="o",
            headers={"x-order": f"{order.id}"},
        )  # fmt: skip
        shipped = call_grpc("ship", "grpc://h:50051/shop.Orders/Ship", {"order": order.id})
        ship.step(shipped.output)

    nodes = drawn(order)
    assert nodes["tell"]["target"] == {
        "type": "queue", "url": "queue://orders/paid", "key": "o",
        "headers": {"x-order": "{{run.input.order.id}}"},
    }  # fmt: skip
    assert nodes["tell"]["after"] == ["charge"]
    assert nodes["ship"]["target"]["url"] == "grpc://h:50051/shop.Orders/Ship"
    assert nodes["ship"]["payload"] == {"order": "{{run.input.order.id}}"}
    assert nodes["parcel_ship"]["after"] == ["ship"]

    def unknown(order: Order) -> None:
        publish("tell", f"queue://orders/{order.id}")

    def wrong() -> None:
        publish("tell", "queue://orders")

    for function, why in ((unknown, "known beforehand"), (wrong, "queue://connection/topic")):
        with pytest.raises(InvalidWorkflow, match=why):
            drawn(function)


def test_options_of_the_workflow() -> None:
    here = Gnomon()

    @here.workflow(name="orders.v1", deadline="2h", fail_fast=True)
    def order(payload: dict[str, str]) -> None:
        ship.step(payload["line"])

    assert here.workflows == {"orders.v1": order}
    assert order.definition.deadline_seconds == 7200
    assert order.definition.fail_fast
    assert order.definition.nodes["parcel_ship"].payload == {"line": "{{run.input.line}}"}


def decided_now(order: Order) -> None:
    if charge.step(order.id, 1).output > 0:
        ship.step("l")


def decided_already(order: Order) -> None:
    ship.step(order.id).only_if(1 > 0)


def gone_through(order: Order) -> None:
    for line in order.lines:
        ship.step(line)


def called_here(order: Order) -> None:
    ship.step(order.id.upper())


def own_output(order: Order) -> None:
    step = ship.step(order.id)
    step.only_if(step.output == "")


def without_steps(_order: Order) -> None: ...


def other_result(order: Order) -> str:
    ship.step(order.id)
    return "done"


def same_names(order: Order) -> None:
    ship.step(order.id).named("a")
    ship.step(order.id).named("a")


def odd_name(order: Order) -> None:
    ship.step(order.id).named("a.b")


async def asynchronous(order: Order) -> None:
    ship.step(order.id)


def with_context(ctx: TaskContext) -> None:
    ship.step(str(ctx.attempt))


def unknown_rule(order: Order) -> None:
    ship.step(order.id).when("none_failed")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (decided_now, "only_if()"),
        (decided_already, "True is no condition"),
        (gone_through, "cannot be gone through"),
        (called_here, "cannot be called"),
        (own_output, "it uses its own output"),
        (without_steps, "has no steps"),
        (other_result, "must return the output of a step"),
        (same_names, "two steps are called 'a'"),
        (odd_name, "cannot be called 'a.b'"),
        (asynchronous, "write it with def"),
        (with_context, "contexts and dependencies are for handlers"),
        (unknown_rule, "'none_failed': there are 'all_succeeded'"),
    ],
)
def test_what_cannot_be_drawn_is_told_where_it_is_declared(function: Any, told: str) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        Gnomon().workflow(function)
    assert told in str(refused.value)
    assert f"workflow {function.__name__} (" in str(refused.value)


def test_arguments_that_are_known_are_checked_at_once() -> None:
    def order(_order: Order) -> None:
        charge.step("o", "many")  # type: ignore[arg-type]

    with pytest.raises(InvalidWorkflow, match="cents"):
        Gnomon().workflow(order)


def test_a_signature_is_kept() -> None:
    def order(order: Order) -> None:
        charge.step(order.id)  # type: ignore[call-arg]

    with pytest.raises(InvalidWorkflow, match="cents"):
        Gnomon().workflow(order)


def test_options_of_a_submission_are_none_of_a_step() -> None:
    def order(order: Order) -> None:
        ship.options(delay="1h").step(order.id)

    with pytest.raises(InvalidWorkflow, match="a step has no delay="):
        Gnomon().workflow(order)


def test_a_step_stands_in_a_workflow_only() -> None:
    with pytest.raises(InvalidWorkflow, match=r"belongs in a function with @app\.workflow"):
        ship.step("l")


def test_two_workflows_have_two_names() -> None:
    here = Gnomon()

    def order(order: Order) -> None:
        ship.step(order.id)

    here.workflow(order)
    with pytest.raises(InvalidWorkflow, match="two workflows are called 'order'"):
        here.workflow(order)


def test_a_start_checks_its_arguments_and_fills_in_defaults() -> None:
    here = Gnomon()

    @here.workflow
    def order(id: str, count: int = 3) -> None:  # noqa: A002 - a name as people choose
        charge.step(id, count)

    call = order.call(("o-1",), {}, {"key": "k"})
    assert call.path == "/workflows/order/runs"
    assert msgspec.json.decode(call.content) == {"input": {"id": "o-1", "count": 3}}
    assert call.key == "k"
    with pytest.raises(InvalidArguments):
        order.start_sync()  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="did you mean key="):
        order.options(kye="k")  # type: ignore[call-arg]
