"""Where settings come from, which source wins, and what a wrong one is told."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gnomon.settings import Settings, SettingsError, load, unknown_variables


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_file_or_environment_all_are_defaults() -> None:
    assert load({}) == Settings()


def test_the_default_file_is_read_where_it_exists(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("slots = 7\n[functions]\ngreet = 'shop.jobs:greet'\n")
    settings = load({})
    assert settings.slots == 7
    assert settings.functions == {"greet": "shop.jobs:greet"}


def test_a_named_file_is_read_instead_of_the_default(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("slots = 7")
    (folder / "other.toml").write_text("batch = 9", encoding="utf-8")
    settings = load({}, folder / "other.toml")
    assert (settings.slots, settings.batch) == (Settings().slots, 9)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can enter. Those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="public-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("api_key = 'gn_x'", "api_key"),
        ("webhook_secret = 'whsec_x'", "webhook_secret"),
        ("database_url = 'postgresql://u:p@h/d'", "database_url"),
        ("database_url = 'postgresql:///d?password=p'", "database_url"),
    ],
)
def test_a_file_with_secrets_is_not_for_everybody(public: Path, text: str, held: str) -> None:
    file = public / "gnomon.toml"
    file.write_text(text)
    file.chmod(0o644)
    with pytest.raises(SettingsError, match=f"({held}).*can be read by every user.*chmod o-r"):
        load({}, file)
    file.chmod(0o640)
    load({}, file)
    file.chmod(0o644)
    public.chmod(0o700)  # nobody else gets as far as the file
    load({}, file)


def test_a_file_without_secrets_is_for_everybody(public: Path) -> None:
    file = public / "gnomon.toml"
    file.write_text("slots = 7\ndatabase_url = 'postgresql://u@h/d'")
    file.chmod(0o644)
    assert load({}, file).slots == 7


def test_the_environment_wins_over_the_file(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("slots = 7\nbatch = 8")
    settings = load({"GNOMON_SLOTS": "9", "GNOMON_SCAN_SECONDS": "0.25"})
    assert (settings.slots, settings.batch, settings.scan_seconds) == (9, 8, 0.25)


def test_an_empty_variable_is_an_unset_one(folder: Path) -> None:
    (folder / "secret").write_text("whsec_a")
    settings = load(
        {
            "GNOMON_SLOTS": "",
            "DATABASE_URL": "",
            "GNOMON_WEBHOOK_SECRET": "",
            "GNOMON_WEBHOOK_SECRET_FILE": "secret",
        }
    )
    assert settings == Settings(webhook_secret="whsec_a")


def test_a_secret_comes_from_a_file_without_its_last_newline(folder: Path) -> None:
    (folder / "secret").write_text("whsec_a\n")
    environ = {"GNOMON_WEBHOOK_SECRET_FILE": str(folder / "secret")}
    assert load(environ).webhook_secret == "whsec_a"
    assert load({**environ, "GNOMON_WEBHOOK_SECRET": "whsec_b"}).webhook_secret == "whsec_b"


def test_the_database_is_found_with_and_without_the_prefix(folder: Path) -> None:
    (folder / "url").write_text("postgres://file")
    plain, own = {"DATABASE_URL": "postgres://p"}, {"GNOMON_DATABASE_URL": "postgres://o"}
    assert load(plain).database_url == "postgres://p"
    assert load(plain | own).database_url == "postgres://o"
    assert load({"DATABASE_URL_FILE": "url"}).database_url == "postgres://file"


def test_a_direct_way_is_one_to_a_database_that_is_named() -> None:
    direct = {"GNOMON_DIRECT_DATABASE_URL": "postgres://d"}
    assert load(direct | {"DATABASE_URL": "postgres://p"}).direct_database_url == "postgres://d"
    with pytest.raises(SettingsError, match="direct_database_url"):
        load(direct)


def test_functions_are_pairs_in_the_environment() -> None:
    settings = load({"GNOMON_FUNCTIONS": "a=m:f, b = n.o:g,"})
    assert settings.functions == {"a": "m:f", "b": "n.o:g"}
    with pytest.raises(SettingsError, match="GNOMON_FUNCTIONS must be name="):
        load({"GNOMON_FUNCTIONS": "m:f"})


def test_an_unknown_setting_in_the_file_suggests_the_nearest(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("slot = 7")
    with pytest.raises(SettingsError, match=r"gnomon\.toml: unknown setting 'slot'.*'slots'\?"):
        load({})


def test_unknown_variables_are_listed_and_harmless() -> None:
    environ = {
        "GNOMON_SLOTZ": "1",
        "GNOMON_SLOTS": "2",
        "GNOMON_WEBHOOK_SECRET_FILE": "",
        "PATH": "/bin",
    }
    assert unknown_variables(environ) == ["GNOMON_SLOTZ"]
    assert load(environ).slots == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slots", "many"),
        ("slots", "0"),
        ("slots", "1.5"),
        ("prefetch", "-1"),
        ("api_port", "65536"),
        ("scan_seconds", "0"),
        ("scan_seconds", "nan"),
        ("horizon_seconds", "inf"),
        ("node_lease_seconds", "0.5"),
        ("node_lease_seconds", "nan"),
        ("drain_seconds", "-1"),
        ("log_format", "xml"),
    ],
)
def test_a_bad_value_is_named(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load({f"GNOMON_{name.upper()}": text})


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"slots = ", "not valid TOML"), (b'node_name = "\xff"', "not valid TOML")],
)
def test_a_broken_file_is_named(folder: Path, content: bytes, message: str) -> None:
    (folder / "gnomon.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=rf"gnomon\.toml is {message}"):
        load({})


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml cannot be read: No such file"):
        load({}, folder / "nowhere.toml")
    with pytest.raises(SettingsError, match="GNOMON_WEBHOOK_SECRET_FILE names nowhere: No such"):
        load({"GNOMON_WEBHOOK_SECRET_FILE": "nowhere"})


@pytest.mark.parametrize(
    ("slots", "critical", "kept"),
    [
        (1, None, 0),
        (2, None, 1),
        (39, None, 1),
        (40, None, 2),
        (1000, None, 50),
        (4, 0, 0),
        (4, 3, 3),
    ],
)
def test_one_slot_in_twenty_is_kept_for_critical_tasks(
    slots: int, critical: int | None, kept: int
) -> None:
    assert Settings(slots=slots, critical_slots=critical).reserved_slots == kept


@pytest.mark.parametrize(
    ("name", "least", "too_little"),
    [
        *((name, 1, 0) for name in ("slots", "batch", "threads", "window", "node_lease_seconds")),
        *((name, 1e-3, 0) for name in ("scan_seconds", "aging_seconds", "timeout_grace_seconds")),
        *((name, 0, -1) for name in ("retention_days", "prefetch", "drain_seconds")),
        *((name, 0, -1) for name in ("idempotency_seconds", "max_payload_bytes")),
        ("tenant_share", 0.01, 0),
        ("critical_slots", 0, -1),
        ("api_port", 0, -1),
        ("metrics_port", 0, -1),
    ],
)
def test_a_number_has_its_least_value(name: str, least: Any, too_little: Any) -> None:
    assert getattr(Settings(**{name: least}), name) == least
    with pytest.raises(ValueError, match=name):
        Settings(**{name: too_little})


@pytest.mark.parametrize(
    ("name", "most", "too_much"),
    [
        ("tenant_share", 1, 1.01),
        ("critical_slots", 9, 10),
        ("api_port", 65535, 65536),
        ("metrics_port", 65535, 65536),
        *((name, 1e9, float("inf")) for name in ("scan_seconds", "drain_seconds")),
    ],
)
def test_a_number_has_its_largest_value(name: str, most: Any, too_much: Any) -> None:
    assert getattr(Settings(slots=10, **{name: most}), name) == most
    with pytest.raises(ValueError, match=name):
        Settings(slots=10, **{name: too_much})
