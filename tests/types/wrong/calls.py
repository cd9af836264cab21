# pyright: strict
"""Mistakes that type checkers must find: each line that is marked, with these codes."""

from gnomon import Gnomon, TaskContext

app = Gnomon()


@app.task
async def send_email(user_id: str, template: str = "welcome") -> int:
    return len(user_id + template)


@app.task
async def with_context(ctx: TaskContext, day: str) -> int:
    return ctx.attempt


async def submit() -> None:
    await send_email.submit(7)  # wrong: arg-type reportArgumentType
    await send_email.submit()  # wrong: call-arg reportCallIssue
    await send_email.submit("u_1", usre="u")  # wrong: call-arg reportCallIssue
    send_email.submit_sync(user_id=7)  # wrong: arg-type reportArgumentType
    send_email.prepare(user_id=None)  # wrong: arg-type reportArgumentType
    await send_email.options(dealy="10m").submit("u")  # wrong: call-arg reportCallIssue
    await send_email.options(delay=[1]).submit("u")  # wrong: arg-type reportArgumentType
    await send_email.options(key="k").submit(7)  # wrong: arg-type reportArgumentType
    await with_context.submit(7)  # wrong: arg-type reportArgumentType
    result = await (await send_email.submit("u")).result()
    result.upper()  # wrong: attr-defined reportAttributeAccessIssue
    await send_email(7)  # wrong: arg-type reportArgumentType
    await app.submit_many([send_email])  # wrong: list-item reportArgumentType
    app.handle("id", send_email).results()  # wrong: attr-defined reportAttributeAccessIssue


@app.task(retires=5)  # wrong: call-overload reportCallIssue
async def misspelt() -> None: ...


@app.task(priority="urgent")  # wrong: call-overload reportArgumentType
async def unknown_priority() -> None: ...
