"""CSV that no spreadsheet takes for a program."""

import csv
import io

import pytest

from gnomon.model.csv_lines import csv_of


@pytest.mark.parametrize(
    "text",
    ["=cmd|' /C calc'!A0", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\uff1d1"],
)
def test_what_would_be_a_formula_is_text(text: str) -> None:
    ((name,),) = list(csv.reader(io.StringIO(csv_of(["name"], [[text]]), newline="")))[1:]
    assert name == f"'{text}".replace("\r", "\n")


def test_other_values_are_as_they_were() -> None:
    rows = [["a,b", 'say "x"', None, -3, 0.5, "line\nbreak"]]
    text = csv_of(["a", "b", "c", "d", "e", "f"], rows)
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert found == [list("abcdef"), ["a,b", 'say "x"', "", "-3", "0.5", "line\nbreak"]]
