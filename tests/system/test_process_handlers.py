"""The processes of handlers end with their node, however that ends."""

from pathlib import Path

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Submitter, eventually
from tests.system.test_quarantine import all_gone

from gnomon.model.targets.target import PythonTarget

pytestmark = pytest.mark.timeout(120)

HANDLERS = """
import os
from pathlib import Path

from gnomon import Gnomon

app = Gnomon()


@app.task(process=True)
def spin(payload):
    Path(__file__).with_name(f"begun.{os.getpid()}").touch()
    while True:
        sum(range(1000))
"""


@pytest.mark.parametrize("how", ["kill", "terminate"])
async def test_no_process_outlives_its_node(
    new_node: NewProcess, submitter: Submitter, tmp_path: Path, how: str
) -> None:
    (tmp_path / "heavy_handlers.py").write_text(HANDLERS)
    settings = {"targets_processes": 2, "node_drain_seconds": 0.1}
    node = new_node("node", node_app="heavy_handlers:app", **settings)
    await node.started()
    await submitter.submit(PythonTarget("spin"), 2)

    async def begun() -> bool:
        return len(list(tmp_path.glob("begun.*"))) == 2

    await eventually(begun)
    if how == "kill":
        node.kill()
    else:
        node.terminate()
        assert await node.code(30) == 0
    await all_gone({int(path.suffix[1:]) for path in tmp_path.glob("begun.*")})
