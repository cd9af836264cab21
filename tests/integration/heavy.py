"""Handlers that run in processes of their own."""

import asyncio
import logging
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import TaskContext

app = Gnomon()


@app.lifespan
async def lifespan(app: Gnomon) -> AsyncIterator[None]:
    app.state.ready = True
    yield
    if "GNOMON_TEST_NOTES" in os.environ:
        (Path(os.environ["GNOMON_TEST_NOTES"]) / f"left.{os.getpid()}").touch()


@app.task(process=True)
def where() -> int:
    assert app.state.ready
    return os.getpid()


@app.task(process=True)
async def where_async() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@app.task(process=True)
def spin(notes: str) -> None:
    """Uses a core, and does not look whether it may."""
    Path(notes, f"begun.{os.getpid()}").touch()
    while True:
        sum(range(1000))


@app.task(process=True)
async def block(notes: str) -> None:
    """Keeps even the event loop of its process from answering."""
    Path(notes, f"begun.{os.getpid()}").touch()
    while True:
        time.sleep(0.1)


@app.task(process=True)
def look(notes: str, ctx: TaskContext) -> str:
    """Ends when it is told to stop."""
    Path(notes, f"begun.{os.getpid()}").touch()
    ctx.progress(0.25, "a quarter")
    while not ctx.cancelled:
        time.sleep(0.01)
    Path(notes, f"told.{os.getpid()}").touch()
    return "told"


@app.task(process=True)
def die(signal_number: int) -> None:
    os.kill(os.getpid(), signal_number)
    signal.pause()


@app.task(process=True)
def fail() -> None:
    logging.getLogger("heavy").warning("about to fail")
    raise ValueError("in a process")


@app.task(process=True)
def start_more(notes: str, signal_number: int) -> None:
    """Starts a program that outlives it, and dies or spins."""
    program = subprocess.Popen(["sleep", "600"])
    Path(notes, f"begun.{program.pid}").touch()
    if signal_number:
        os.kill(os.getpid(), signal_number)
    while True:
        time.sleep(0.1)
