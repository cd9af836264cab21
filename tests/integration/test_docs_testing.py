"""The examples of docs/how-to/test-your-handlers.md, written to files and run as a user would."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-your-handlers.md"
_BLOCK = re.compile(r"```(?:python|toml)\n# (\S+)\n(.*?)```", re.DOTALL)
_LEFT_OUT = ("hypothesispytest", "schemathesis", "faker", "timeout", "cacheprovider")


async def test_every_example_runs(tmp_path: Path) -> None:
    files = dict(_BLOCK.findall(PAGE.read_text()))
    assert len(files) == PAGE.read_text().count("```") / 2
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", *(f"-pno:{name}" for name in _LEFT_OUT)]
    ended = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    tests = sum(text.count("def test_") for text in files.values())
    assert f"{tests} passed" in ended.stdout, ended.stdout + ended.stderr
