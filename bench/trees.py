"""A checkout of Gnomon that can be run: this one, or another commit in a worktree of its own."""

import os
import sys
from pathlib import Path

import msgspec

from gnomon.bench.processes import Program, environ_of, output_of
from gnomon.bench.results import BenchError

APP = "bench.handlers:app"
# Of trees from before there were apps, where these functions are named one by one.
FUNCTIONS = "noop=bench.functions:noop,stamp=bench.functions:stamp"
ROOT = Path(__file__).parents[1]
_LOCK = "requirements.lock"


class Tree(msgspec.Struct, frozen=True):
    """Where the code lies, and the Python that runs it."""

    name: str
    root: Path
    python: Path

    @property
    def program(self) -> Program:
        """Runs our functions, whatever it has of its own."""
        has_apps = (self.root / "src" / "gnomon" / "sdk").is_dir()
        variable, named = ("NODE_APP", APP) if has_apps else ("TARGETS_FUNCTIONS", FUNCTIONS)
        path = os.pathsep.join([str(self.root / "src"), str(ROOT)])
        return Program(str(self.python), {"PYTHONPATH": path, f"GNOMON_{variable}": named})


HERE = Tree("this tree", ROOT, Path(sys.executable))


async def checkout(commit: str, folder: Path) -> Tree:
    """The tree of `commit`, below `folder`. It stays there, and is used again the next time."""
    sha = (await _output("git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")).strip()
    root = folder / sha[:12]
    if not (root / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        await _output("git", "worktree", "prune")
        await _output("git", "worktree", "add", "--quiet", "--force", "--detach", str(root), sha)
    tree = Tree(sha[:12], root, await _python(root))
    await _verify(tree)
    return tree


async def migrate(dsn: str, folder: Path, tree: Tree) -> None:
    """Bring a database up to date with the code of `tree`."""
    command = [str(tree.python), "-m", "gnomon", "migrate"]
    await output_of(command, cwd=folder, env=environ_of(tree.program, dsn, folder, {}))


async def _python(root: Path) -> Path:
    """Ours, where both need the same packages; otherwise one of its own."""
    if (root / _LOCK).read_bytes() == (ROOT / _LOCK).read_bytes():
        return HERE.python
    environment = root / ".venv"
    python, installed = environment / "bin" / "python", environment / ".installed"
    if not installed.exists():
        uv = str(HERE.python.parent / "uv")
        await _output(uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable,
                      str(environment))  # fmt: skip
        await _output(uv, "pip", "install", "--quiet", "--require-hashes", "--python", str(python),
                      "-r", str(root / _LOCK))  # fmt: skip
        await _output(uv, "pip", "install", "--quiet", "--no-deps", "--python", str(python),
                      "--editable", str(root))  # fmt: skip
        installed.touch()
    return python


async def _verify(tree: Tree) -> None:
    """An editable install of this tree must not be what is measured as the other one."""
    source = tree.root / "src"
    program = (
        f"import sys; sys.path.insert(0, {str(source)!r}); import gnomon; print(gnomon.__file__)"
    )
    found = Path((await _output(str(tree.python), "-c", program)).strip())
    if source not in found.parents:
        raise BenchError(f"{tree.name} would run the code in {found.parent}")


async def _output(*program: str) -> str:
    try:
        return (await output_of(program, cwd=ROOT)).decode()
    except BenchError as error:
        raise BenchError(f"`{' '.join(program)}` failed: {error}") from None
