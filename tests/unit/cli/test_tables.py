"""Tables fit the terminal where they can, and never break an id."""

import re
import uuid

from hypothesis import given
from hypothesis import strategies as st

from gnomon.cli.shared import output
from gnomon.cli.shared.tables import (
    GAP,
    SHORT_ID,
    Column,
    Fit,
    Laid,
    cell_length,
    cut,
    laid_out,
    short_ids,
    wrapped,
)

COLUMNS = (
    Column("task", Fit.ID),
    Column("status", Fit.WHOLE),
    Column("error", lines=2),
    Column("queue", Fit.WHOLE, rank=1),
    Column("tags", rank=2),
)
ids = st.uuids(version=4).map(str)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60)
rows = st.lists(
    st.tuples(ids, st.sampled_from(["READY", "DEAD_LETTERED"]), texts, st.just("mail"), texts),
    min_size=1,
    max_size=8,
)


def lines(laid: Laid) -> list[str]:
    found = []
    for row in laid.rows:
        for number in range(max(map(len, row))):
            cells = [cell[number] if number < len(cell) else "" for cell in row]
            sized = zip(cells, laid.widths, strict=True)
            found.append((" " * GAP).join(c + " " * (w - cell_length(c)) for c, w in sized))
    return found


@given(rows, st.integers(60, 200))
def test_a_table_fits_and_an_id_is_whole_or_its_beginning(
    given_rows: list[tuple[str, ...]], width: int
) -> None:
    laid = laid_out(COLUMNS, given_rows, width)
    assert max(cell_length(line.rstrip()) for line in lines(laid)) <= width
    for before, row in zip(given_rows, laid.rows, strict=True):
        (shown,) = row[0]
        assert shown in (before[0], before[0][: len(shown)])
        assert len(shown) >= SHORT_ID
    shown_ids = {row[0][0] for row in laid.rows}
    assert len(shown_ids) == len({row[0] for row in given_rows})


@given(rows)
def test_without_shortening_ids_are_whole_whatever_the_width(
    given_rows: list[tuple[str, ...]],
) -> None:
    laid = laid_out(COLUMNS, given_rows, 40, shorten=False)
    assert [row[0] for row in laid.rows] == [[row[0]] for row in given_rows]


@given(texts, st.integers(1, 80))
def test_wrapping_loses_no_character_but_spaces(text: str, width: int) -> None:
    found = wrapped(text, width)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(cell_length(line) <= max(width, 2) for line in found)  # some are two columns wide


def test_a_long_id_in_a_text_is_shortened_and_not_broken() -> None:
    task_id = "0199f3a2-7c1e-7d43-a7f5-0c6a53a9d1f0"
    assert wrapped(f"after {task_id}", 20) == ["after", task_id[:SHORT_ID]]
    assert wrapped(f"after {task_id}", 42) == [f"after {task_id}"]


def test_ids_of_one_batch_are_shown_long_enough_to_tell_them_apart() -> None:
    near = ["0199f3a2-7c1e-7d43-a7f5-0c6a53a9d1f0", "0199f3a2-7c1e-7d43-a8f5-0c6a53a9d1f0"]
    assert set(short_ids(near).values()) == {"0199f3a2-7c1e-7d43-a7", "0199f3a2-7c1e-7d43-a8"}
    assert short_ids([str(uuid.UUID(int=0))]) == {str(uuid.UUID(int=0)): "00000000-0000-0000"}


def test_what_matters_least_is_left_out_first() -> None:
    row = ("0199f3a2-7c1e-7d43-a7f5-0c6a53a9d1f0", "READY", "x " * 40, "mail", "a b")
    titles = [[c.title for c in laid_out(COLUMNS, [row], n).columns] for n in (200, 58, 40)]
    assert titles == [
        ["task", "status", "error", "queue", "tags"],
        ["task", "status", "error", "queue", "tags"],
        ["task", "status", "error"],
    ]


def test_columns_without_values_are_left_out() -> None:
    laid = laid_out(COLUMNS, [("id", "READY", "", "", "x")], 80)
    assert [column.title for column in laid.columns] == ["task", "status", "tags"]


def test_words_are_broken_after_a_joint() -> None:
    assert wrapped("billing.charge.customer", 18) == ["billing.charge.", "customer"]


def test_a_status_keeps_its_colour_with_what_is_told_after_it() -> None:
    assert output.style_of("FAILED, retry in 12s") == output.STATUS_STYLES["FAILED"]
    assert not re.search("FAIL", output.style_of("something FAILED"))


def test_a_long_name_is_wrapped_in_a_terminal_only() -> None:
    columns = (Column("job", Fit.NAME), Column("when"), Column("next", Fit.WHOLE))
    rows = [("nightly-" * 12, "0 9 * * *", "2026-11-16 15:50:00Z"), ("report", "@daily", "")]
    laid = laid_out(columns, rows, 80)
    assert max(map(len, lines(laid))) <= 80
    assert "".join(laid.rows[0][0]) == rows[0][0]
    assert laid_out(columns, rows, 80, shorten=False).rows[0][0] == [rows[0][0]]
    short = [("n" * 32, "0 9 * * *", "2026-11-16 15:50:00Z")]
    assert laid_out(columns, short, 80).rows[0][0] == [short[0][0]]


def test_a_line_is_cut_to_nothing_where_there_is_no_room() -> None:
    assert len(cut("text", 1)) == 1
    assert len(cut("text", 0)) <= 1
