# pyright: strict
"""Steps that are mapped, and that wait: their outputs have the types of what they give."""

from typing import assert_type

from gnomon import Gnomon, Step, for_each, wait_for_signal, wait_for_time

app = Gnomon()


@app.task
async def listed(day: str) -> list[str]:
    return [day]


@app.task
async def load(file: str, day: str = "") -> int:
    return len(file + day)


@app.task
async def total(rows: list[int], by: str) -> int:
    return sum(rows) + len(by)


@app.workflow
def etl(day: str) -> int:
    files = listed.step(day)
    rows = for_each(files.output, load.step)
    assert_type(rows, Step[list[int]])
    for_each(files.output, lambda file: load.step(file, day))
    approved = wait_for_signal("approved", str, timeout="1h", otherwise="nobody")
    assert_type(approved.output, str)
    cooled = wait_for_time("1h").after(approved)
    return total.step(rows.output, approved.output).after(cooled).output
