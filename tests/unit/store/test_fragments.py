"""Columns that several statements share are written once, and put in when a statement is read."""

import re

import pytest

from gnomon.store.postgres.queries import fragments, query, statements

_PLACE = re.compile(r"\{(?:\w+\.)?([a-z]\w*)\}")


def columns(name: str) -> list[str]:
    """The entries of a list: a comma within parentheses separates nothing."""
    found, depth, start = [], 0, 0
    text = fragments()[name]
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    return [*found, text[start:].strip()]


@pytest.mark.parametrize("name", sorted(statements()))
def test_no_statement_has_a_place_left_to_fill(name: str) -> None:
    assert not _PLACE.search(query(name))
    assert query(name) is query(name)  # read once: it never changes


def test_every_fragment_is_used() -> None:
    texts = [path.read_text() for path in statements().values()]
    used = {name for text in texts for name in _PLACE.findall(text)}
    assert used == set(fragments())


def test_a_fragment_is_put_in_as_it_is_or_of_an_alias() -> None:
    settle = query("settle")
    assert f"{fragments()['carried']}, state, started_at" in settle
    of_t = [f"t.{column}" for column in columns("carried")]
    assert re.search(r",\s+".join(map(re.escape, of_t)), settle)


def test_new_tasks_have_one_column_parameter_and_value_each() -> None:
    names, arrays, values = map(columns, ("new_task", "new_task_arrays", "new_task_values"))
    assert len(names) == len(arrays) == len(values)
    # A parameter each, in order; the tenants and the payloads are beside them.
    numbers = [int(re.match(r"\$(\d+)::\w+\[\]$", array)[1]) for array in arrays]  # type: ignore[index]
    assert numbers == [n for n in range(2, len(names) + 3) if n != 13]
    for name, array, value in zip(names, arrays, values, strict=True):
        assert name in re.split(r"\W+", value)
        assert "$" not in value or f"({array})[1]" in value
