"""A command in a terminal of its own, as wide as a test says."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from tests.commands import PROGRAM, TIMEOUT_SECONDS, Finished, clean_environment

_COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]")


def in_terminal(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    columns: int = 80,
    interrupt_after: str | None = None,
) -> Finished:
    """Run one command to its end; everything that it shows is in `out`, without colours. Ctrl-C is
    typed when it has shown `interrupt_after`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env=clean_environment({"TERM": "xterm", **(env or {})}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with process:
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536)
                except OSError:  # the other end is closed
                    break
            if interrupt_after is not None and interrupt_after.encode() in shown:
                process.send_signal(signal.SIGINT)
                interrupt_after = None
        else:
            process.kill()
        code = process.wait()
    os.close(master)
    text = _COLOURS.sub("", shown.decode().replace("\r\n", "\n"))
    assert "Traceback" not in text, text
    return Finished(code, text, "")
