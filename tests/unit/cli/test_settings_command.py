"""`gnomon settings`: values, where they come from, and no secrets."""

from pathlib import Path

import pytest
from tests.commands import clean_environment, gnomon_here

from gnomon.settings import SECTIONS

SECRETS = {
    "GNOMON_API_KEY": "gn_canary",
    "GNOMON_TARGETS_WEBHOOK_SECRET": "whsec_canary",
    "DATABASE_URL": "postgresql://me:canary@db.example:5432/gnomon?sslmode=require",
    "GNOMON_DATABASE_DIRECT_URL": "postgresql:///gnomon?host=/tmp&password=canary",
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", clean_environment())
    return tmp_path


def test_each_value_has_its_source(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "gnomon.toml").write_text("[node]\nslots = 7\nbatch = 8")
    (elsewhere / "key").write_text("gn_canary")
    monkeypatch.setenv("GNOMON_NODE_BATCH", "9")
    monkeypatch.setenv("GNOMON_API_KEY_FILE", "key")
    shown = gnomon_here("settings", "--json").json
    assert list(shown) == list(SECTIONS)
    node = shown["node"]
    assert node["slots"] == {"value": 7, "from": "gnomon.toml", "variable": "GNOMON_NODE_SLOTS"}
    assert (node["batch"]["value"], node["batch"]["from"]) == (9, "GNOMON_NODE_BATCH")
    assert (node["prefetch"]["value"], node["prefetch"]["from"]) == (1000, "default")
    assert (shown["api"]["key"]["value"], shown["api"]["key"]["from"]) == (
        "***",
        "GNOMON_API_KEY_FILE",
    )


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_secrets_are_masked(form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    shown = gnomon_here("settings", *form).out
    assert "canary" not in shown
    assert "postgresql://me:***@db.example:5432/gnomon?sslmode=require" in shown
    assert shown.count("***") == 4


def test_people_see_sections(elsewhere: Path) -> None:
    (elsewhere / "gnomon.toml").write_text("[sharing.plans.free]\nweight = 2")
    lines = gnomon_here("settings").out.splitlines()
    assert lines[0].split() == ["[database]", "value", "from"]
    assert [line.split() for line in lines if line.startswith("plans")] == [
        ["plans", '{"free":{"weight":2.0}}', "gnomon.toml"]
    ]
    assert "RS256, ES256, EdDSA" in next(each for each in lines if "jwt_algorithms" in each)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql:///gnomon?host=/tmp", "postgresql:///gnomon?host=/tmp"),
        ("postgresql://me@db:5432/d", "postgresql://me@db:5432/d"),
        ("postgresql://me:can%40ary@db/d", "postgresql://me:***@db/d"),
        *((f"postgresql://me:can{odd}ary@db/d", "***") for odd in "@/?#"),
        ("host=db password=canary", "***"),
        ("postgresql://db/d?sslpassword=canary", "***"),
    ],
)
def test_a_url_is_shown_without_its_password(
    url: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    assert gnomon_here("settings", "--json").json["database"]["url"]["value"] == shown
