"""What every long-lived process does when it starts."""

import asyncio
import gc
import signal


def calm_the_collector() -> None:
    """Tens of thousands of short-lived records a second make cycles of none of them; looking for
    cycles among them at every 700th costs more than running the tasks."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
