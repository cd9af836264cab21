# pyright: strict
"""Mistakes in workflows that type checkers must find: each line that is marked."""

from gnomon import Gnomon

app = Gnomon()


@app.task
async def count(text: str) -> int:
    return len(text)


@app.task
async def double(number: int) -> int:
    return 2 * number


@app.task
async def words(text: str) -> list[str]:
    return text.split()


@app.workflow
def counted(text: str) -> int:
    counted = count.step(text)
    count.step(counted.output)  # wrong: arg-type reportArgumentType
    double.step()  # wrong: call-arg reportCallIssue
    double.step(counted.output, 7)  # wrong: call-arg reportCallIssue
    counted.output.upper()  # wrong: attr-defined reportAttributeAccessIssue
    counted.when("none_failed")  # wrong: arg-type reportArgumentType
    counted.on_failure("ignore")  # wrong: arg-type reportArgumentType
    double.step(words.step(text).output)  # wrong: arg-type reportArgumentType
    return counted.output


async def start() -> None:
    await counted.start(7)  # wrong: arg-type reportArgumentType
    await counted.options(kye="k").start("t")  # wrong: call-arg reportCallIssue
    result = await (await counted.start("t")).result()
    result.upper()  # wrong: attr-defined reportAttributeAccessIssue


@app.workflow(deadlin="1h")  # wrong: call-overload reportCallIssue
def misspelt() -> None: ...
