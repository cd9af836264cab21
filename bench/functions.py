"""The functions of `gnomon.bench`, by their file: for programs of peers, which run without Gnomon,
and for commits from before they were part of it."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.bench.functions import CALLS_VARIABLE as CALLS_VARIABLE
    from gnomon.bench.functions import CallRecorder as CallRecorder
    from gnomon.bench.functions import noop as noop
    from gnomon.bench.functions import stamp as stamp
    from gnomon.bench.functions import wait as wait
else:
    _FILE = Path(__file__).parents[1] / "src" / "gnomon" / "bench" / "functions.py"
    _spec = spec_from_file_location(__name__, _FILE)
    _module = module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    globals().update({name: vars(_module)[name] for name in vars(_module) if name[:1] != "_"})
