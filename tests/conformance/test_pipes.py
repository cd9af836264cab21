"""Every pipe against the contract of pipes."""

from collections.abc import Callable

from gnomon.pipe.memory import MemoryPipe
from gnomon.pipe.port import Pipe
from gnomon.testing.contracts.pipe import PipeContract


class TestMemoryPipe(PipeContract):
    def make_pipe(self, capacity: int, on_room: Callable[[], None], reserved: int = 0) -> Pipe:
        return MemoryPipe(capacity, on_room, reserved=reserved)
