"""Finds the app that a path such as `shop:app` names."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from gnomon.sdk.app import Gnomon
from gnomon.sdk.errors import AppNotLoaded


def load_app(path: str) -> Gnomon:
    """The app at `module:attribute`, or the only one of `module`. Looks in the current folder too.
    Raises AppNotLoaded."""
    module_name, colon, attribute = path.partition(":")
    if module_name.endswith(".py"):
        written = f"{Path(module_name).stem}:{attribute or 'app'}"
        raise AppNotLoaded(f"{path!r} names a file: write its module, {written}")
    if (colon and not attribute) or not _is_dotted(module_name):
        raise AppNotLoaded(
            f"{path!r} is not the path of an app: write module:attribute, like shop:app"
        )
    module = _module(module_name)
    return _named(module, attribute) if colon else _only(module)


def path_of(app: Gnomon) -> str | None:
    """The path by which another process can import it; None where no module holds it."""
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            if value is app and (found := _importable(module)) is not None:
                return f"{found}:{name}"
    return None


def _importable(module: ModuleType) -> str | None:
    """Its name, or for a program that was started the name that it has for others."""
    if module.__name__ != "__main__":
        return module.__name__
    if module.__spec__ is not None:
        return module.__spec__.name
    return None if module.__file__ is None else Path(module.__file__).stem


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _module(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise AppNotLoaded(
                f"there is no module {error.name!r} in {folder} or in what Python can import"
            ) from None
        raise AppNotLoaded(f"{name} cannot be imported:\n{_told(error)}") from error
    except Exception as error:
        raise AppNotLoaded(f"{name} cannot be imported:\n{_told(error)}") from error


def _told(error: Exception) -> str:
    """The traceback from the user's module on: what lies above is how it was looked for."""
    frames = error.__traceback__
    while frames is not None and _is_import(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def _is_import(filename: str) -> bool:
    return (
        filename == __file__ or filename == importlib.__file__ or "importlib._bootstrap" in filename
    )


def _named(module: ModuleType, attribute: str) -> Gnomon:
    found: object = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AppNotLoaded(
                f"{module.__name__} has no attribute {attribute!r}{_hint(module)}"
            ) from None
    if not isinstance(found, Gnomon):
        kind = type(found).__name__
        raise AppNotLoaded(
            f"{module.__name__}:{attribute} is of type {kind}, and not a Gnomon{_hint(module)}"
        )
    return found


def _only(module: ModuleType) -> Gnomon:
    apps = _apps(module)
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if not apps:
        raise AppNotLoaded(f"{module.__name__} has no Gnomon: write app = Gnomon() there")
    names = " or ".join(f"{module.__name__}:{name}" for name in apps)
    raise AppNotLoaded(f"{module.__name__} has several apps: say which, {names}")


def _apps(module: ModuleType) -> dict[str, Gnomon]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Gnomon)}


def _hint(module: ModuleType) -> str:
    names = ", ".join(f"{module.__name__}:{name}" for name in _apps(module))
    return f"; it has: {names}" if names else ""
