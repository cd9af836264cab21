"""An app is found by its path, and what is wrong with a path is told."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.sdk.declaring.loading import load_app
from gnomon.sdk.errors import AppNotLoaded


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_it_looks_in_the_current_folder(folder: Path) -> None:
    (folder / "shop_a.py").write_text("from gnomon import Gnomon\napp = Gnomon()\n")
    assert load_app("shop_a:app") is load_app("shop_a") is sys.modules["shop_a"].app


def test_of_several_apps_one_must_be_named(folder: Path) -> None:
    (folder / "shop_b.py").write_text("from gnomon import Gnomon\na = Gnomon()\nb = Gnomon()\n")
    with pytest.raises(AppNotLoaded, match="several apps: say which, shop_b:a or shop_b:b"):
        load_app("shop_b")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("nowhere_at_all:app", "there is no module 'nowhere_at_all' in .* or in what Python"),
        ("shop_c.missing:app", "there is no module 'shop_c.missing'|is not a package"),
        ("shop_c:other", "shop_c has no attribute 'other'; it has: shop_c:app"),
        ("shop_c:number", "shop_c:number is of type int, and not a Gnomon; it has: shop_c:app"),
        ("shop_d", "shop_d has no Gnomon: write app = Gnomon"),
        ("shop_c.py", "names a file: write its module, shop_c:app"),
        ("./shop_c.py:main", "names a file: write its module, shop_c:main"),
        ("shop c:app", "is not the path of an app: write module:attribute, like shop:app"),
        ("", "is not the path of an app"),
        ("shop_c:", "is not the path of an app"),
    ],
)
def test_a_wrong_path_is_told(folder: Path, path: str, told: str) -> None:
    (folder / "shop_c.py").write_text("from gnomon import Gnomon\napp = Gnomon()\nnumber = 1\n")
    (folder / "shop_d.py").write_text("")
    with pytest.raises(AppNotLoaded, match=told):
        load_app(path)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import not_installed_here\n", "No module named 'not_installed_here'"),
        ("def f(:\n", "SyntaxError"),
    ],
)
def test_a_module_that_fails_is_told_with_its_traceback(
    folder: Path, source: str, told: str
) -> None:
    (folder / "shop_e.py").write_text(source)
    with pytest.raises(AppNotLoaded) as failed:
        load_app("shop_e:app")
    text = str(failed.value)
    assert text.startswith("shop_e cannot be imported:\n")
    assert "shop_e.py" in text
    assert told in text
    assert "importlib" not in text
