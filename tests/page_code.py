"""The Python of a page of the documentation, as a module."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"(?ms)^```python\n(.*?)^```$")


def python_of(page: str) -> str:
    """All blocks of Python of a page, on the lines where they stand in it."""
    text = (DOCS / page).read_text()
    code = [""] * (text.count("\n") + 1)
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        lines = block[1].splitlines()
        code[first : first + len(lines)] = lines
    return "\n".join(code)


@contextmanager
def module_of(page: str, name: str) -> Iterator[ModuleType]:
    """The module that somebody gets who copies every block into one file."""
    module = ModuleType(name)
    sys.modules[name] = module  # where dataclasses look for the names in annotations
    try:
        exec(compile(python_of(page), str(DOCS / page), "exec"), vars(module))
        yield module
    finally:
        del sys.modules[name]
