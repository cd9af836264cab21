"""Bytes are shared: nobody takes all, nobody waits for ever, and all of them come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.api.http.bounds.shared_budget import SharedBudget, Waiter


def admitted(waiter: Waiter) -> bool:
    return waiter.admitted.done()


def joined(budget: SharedBudget, holder: str, tenant: str, size: int) -> Waiter:
    waiter = Waiter(holder, tenant, size)
    budget.join(waiter)
    return waiter


async def test_what_fits_is_taken_and_the_next_waits_for_what_comes_back() -> None:
    budget = SharedBudget(100, 100)
    assert budget.try_take("first", "a", 60)
    assert not budget.try_take("second", "a", 50)
    second = joined(budget, "second", "a", 50)
    assert not admitted(second)
    budget.give_back("first")
    assert admitted(second)
    assert budget.free == 50


async def test_no_tenant_takes_more_than_its_share() -> None:
    budget = SharedBudget(100, 50)
    assert budget.try_take("a1", "a", 40)
    assert not budget.try_take("a2", "a", 20)
    own = joined(budget, "a2", "a", 20)
    other = joined(budget, "b1", "b", 50)
    assert admitted(other), "what the tenant's own bodies hold up holds up nobody else"
    assert not admitted(own)
    budget.give_back("a1")
    assert admitted(own)


async def test_whoever_wants_much_is_not_overtaken_by_those_who_want_little() -> None:
    budget = SharedBudget(100, 100)
    assert budget.try_take("held", "a", 60)
    large = joined(budget, "large", "b", 90)
    assert not budget.try_take("small", "c", 10)
    small = joined(budget, "small", "b", 10)
    assert not admitted(small)
    budget.give_back("held")
    assert admitted(large)
    assert admitted(small)


async def test_the_tenant_that_holds_least_is_next() -> None:
    budget = SharedBudget(100, 100)
    assert budget.try_take("a1", "a", 50)
    assert budget.try_take("b1", "b", 50)
    again, new = joined(budget, "a2", "a", 40), joined(budget, "c1", "c", 40)
    budget.give_back("b1")
    assert (admitted(again), admitted(new)) == (False, True)


async def test_whoever_leaves_makes_way_for_those_behind() -> None:
    budget = SharedBudget(100, 100)
    assert budget.try_take("held", "a", 60)
    large, small = joined(budget, "large", "a", 90), joined(budget, "small", "a", 30)
    assert not admitted(small)
    budget.leave(large)
    assert admitted(small)
    assert not admitted(large)
    budget.leave(small)  # too late: it has its bytes
    assert budget.of("small") == 30


async def test_a_part_can_be_given_back() -> None:
    budget = SharedBudget(100, 100)
    assert budget.try_take("held", "a", 80)
    waiting = joined(budget, "next", "a", 60)
    budget.give_back("held", keep=10)
    assert budget.of("held") == 10
    assert admitted(waiting)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "join", "leave", "give_back", "keep"]),
        st.integers(0, 5),
        st.sampled_from("abc"),
        st.integers(1, 60),
    ),
    max_size=40,
)


@pytest.mark.filterwarnings("default")
@given(steps=STEPS)
async def test_whatever_happens_no_byte_is_lost_or_lent_twice(
    steps: list[tuple[str, int, str, int]],
) -> None:
    budget = SharedBudget(100, 60)
    holders: set[str] = set()
    waiting: list[Waiter] = []
    for step, number, tenant, size in steps:
        holder = f"{tenant}{number}"
        match step:
            case "take":
                if budget.try_take(holder, tenant, size):
                    holders.add(holder)
            case "join" if not any(w.holder == holder and not admitted(w) for w in waiting):
                waiting.append(joined(budget, holder, tenant, size))
                holders.add(holder)
            case "leave":
                for waiter in waiting:
                    if waiter.holder == holder:
                        budget.leave(waiter)
            case "give_back":
                budget.give_back(holder)
            case "keep":
                budget.give_back(holder, keep=size)
        held = {each: budget.of(each) for each in holders}
        assert budget.free == 100 - sum(held.values())
        assert budget.free >= 0
        for name in "abc":
            assert sum(n for each, n in held.items() if each[0] == name) <= 60
    for waiter in waiting:
        budget.leave(waiter)
    for each in holders:
        budget.give_back(each)
    assert budget.free == 100
