"""Where settings come from, which source wins, and what a wrong one is told."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.settings import settings_with

from gnomon.settings import (
    NodeSettings,
    PipeSettings,
    Settings,
    SettingsError,
    TargetSettings,
    load,
    unknown_variables,
    variable_of,
)
from gnomon.settings.former import FORMER
from gnomon.settings.section import Section
from gnomon.settings.settings import SECTIONS

# Settings that there were not before there were sections.
LATER = {
    ("sharing", "max_ready_tasks"),
    ("api", "max_run_nodes"),
    ("database", "handler_connections"),
    ("database", "handler_url"),
    ("node", "stuck_after_seconds"),
    ("database", "activity_days"),
    ("node", "app"),
    ("targets", "processes"),
    ("targets", "grpc_tls"),
    ("targets", "queues"),
    ("targets", "max_feed_backlog"),
    ("output", "handler_log_level"),
    ("output", "access_log"),
    *(("tracing", name) for name in SECTIONS["tracing"].__struct_fields__),
    ("output", "metrics_socket"),
    *(("gateway", name) for name in SECTIONS["gateway"].__struct_fields__),
    *(("pipe", name) for name in SECTIONS["pipe"].__struct_fields__),
    *(("notify", name) for name in SECTIONS["notify"].__struct_fields__),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_file_or_environment_all_are_defaults() -> None:
    assert load({}) == Settings()


def test_the_default_file_is_read_where_it_exists(folder: Path) -> None:
    (folder / "gnomon.toml").write_text(
        "node.slots = 7\n[sharing.lane_weights]\nCRITICAL = 9\nHIGH = 3\nMEDIUM = 2\nLOW = 1\n"
    )
    settings = load({})
    assert settings.node.slots == 7
    assert settings.sharing.lane_weights["CRITICAL"] == 9


def test_a_named_file_is_read_instead_of_the_default(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("[node]\nslots = 7")
    (folder / "other.toml").write_text("node.batch = 9", encoding="utf-8")
    settings = load({}, folder / "other.toml")
    assert (settings.node.slots, settings.node.batch) == (Settings().node.slots, 9)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can enter. Those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="public-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("api.key = 'gn_x'", "api.key"),
        ("targets.webhook_secret = 'whsec_x'", "targets.webhook_secret"),
        ("database.url = 'postgresql://u:p@h/d'", "database.url"),
        ("database.url = 'postgresql:///d?password=p'", "database.url"),
        ("[database]\nurl = 'x'\ndirect_url = 'postgresql://u:p@h/d'", "database.direct_url"),
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
    file.write_text("node.slots = 7\ndatabase.url = 'postgresql://u@h/d'")
    file.chmod(0o644)
    assert load({}, file).node.slots == 7


def test_the_environment_wins_over_the_file(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("[node]\nslots = 7\nbatch = 8")
    node = load({"GNOMON_NODE_SLOTS": "9", "GNOMON_NODE_SCAN_SECONDS": "0.25"}).node
    assert (node.slots, node.batch, node.scan_seconds) == (9, 8, 0.25)


def test_an_empty_variable_is_an_unset_one(folder: Path) -> None:
    (folder / "secret").write_text("whsec_a")
    settings = load(
        {
            "GNOMON_NODE_SLOTS": "",
            "GNOMON_SLOTS": "",  # so is one from before there were sections
            "DATABASE_URL": "",
            "GNOMON_TARGETS_WEBHOOK_SECRET": "",
            "GNOMON_TARGETS_WEBHOOK_SECRET_FILE": "secret",
        }
    )
    assert settings == Settings(targets=TargetSettings(webhook_secret="whsec_a"))


def test_a_secret_comes_from_a_file_without_its_last_newline(folder: Path) -> None:
    (folder / "secret").write_text("whsec_a\n")
    environ = {"GNOMON_TARGETS_WEBHOOK_SECRET_FILE": str(folder / "secret")}
    assert load(environ).targets.webhook_secret == "whsec_a"
    environ["GNOMON_TARGETS_WEBHOOK_SECRET"] = "whsec_b"
    assert load(environ).targets.webhook_secret == "whsec_b"


def test_the_database_is_found_with_and_without_the_prefix(folder: Path) -> None:
    (folder / "url").write_text("postgres://file")
    plain, own = {"DATABASE_URL": "postgres://p"}, {"GNOMON_DATABASE_URL": "postgres://o"}
    assert load(plain).database.url == "postgres://p"
    assert load(plain | own).database.url == "postgres://o"
    assert load({"DATABASE_URL_FILE": "url"}).database.url == "postgres://file"


def test_a_direct_way_is_one_to_a_database_that_is_named() -> None:
    direct = {"GNOMON_DATABASE_DIRECT_URL": "postgres://d"}
    known = load(direct | {"DATABASE_URL": "postgres://p"})
    assert known.database.direct_url == "postgres://d"
    with pytest.raises(SettingsError, match=r"database\.direct_url must come with database\.url"):
        load(direct)


def test_weights_are_pairs_in_the_environment() -> None:
    settings = load({"GNOMON_SHARING_LANE_WEIGHTS": "CRITICAL=9, HIGH = 3,MEDIUM=2,LOW=1,"})
    assert settings.sharing.lane_weights == {"CRITICAL": 9, "HIGH": 3, "MEDIUM": 2, "LOW": 1}
    with pytest.raises(SettingsError, match="GNOMON_SHARING_LANE_WEIGHTS must be name="):
        load({"GNOMON_SHARING_LANE_WEIGHTS": "9"})


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("slot = 7", "node.slots"),
        ("node.slot = 7", "node.slots"),
        ("api.slots = 7", "node.slots"),
        ("nodes.slots = 7", "node"),
        ("api.api_port = 7", "api.port"),
        ("node.node_lease_seconds = 7", "node.lease_seconds"),
    ],
)
def test_an_unknown_setting_in_the_file_suggests_the_nearest(
    folder: Path, text: str, near: str
) -> None:
    (folder / "gnomon.toml").write_text(text)
    with pytest.raises(SettingsError, match=rf"gnomon\.toml: unknown setting '.*'{near}'\?"):
        load({})


def test_a_section_is_a_table(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("node = 7")
    with pytest.raises(SettingsError, match=r"gnomon\.toml: node must be a table"):
        load({})


def test_a_former_name_in_the_file_is_told_the_new_one(folder: Path) -> None:
    (folder / "gnomon.toml").write_text("slots = 7\nthreads = 3\n[node]\nbatch = 1")
    told = r"gnomon\.toml: slots is now node\.slots; threads is now targets\.threads$"
    with pytest.raises(SettingsError, match=told):
        load({})


def test_a_former_variable_is_told_the_new_one() -> None:
    environ = {"GNOMON_SLOTS": "7", "GNOMON_WEBHOOK_SECRET_FILE": "nowhere", "PATH": "/bin"}
    with pytest.raises(SettingsError) as raised:
        load(environ)
    assert str(raised.value) == (
        "in the environment: GNOMON_SLOTS is now GNOMON_NODE_SLOTS; GNOMON_WEBHOOK_SECRET_FILE is "
        "now GNOMON_TARGETS_WEBHOOK_SECRET_FILE"
    )


def test_the_former_variable_of_the_address_is_told_the_new_one() -> None:
    with pytest.raises(SettingsError, match=r"GNOMON_API_URL is now GNOMON_URL$"):
        load({"GNOMON_API_URL": "http://127.0.0.1:8080"})


@pytest.mark.parametrize("text", ["[functions]\na = 'b:c'", "[targets.functions]\na = 'b:c'"])
def test_functions_in_the_file_are_told_of_apps(folder: Path, text: str) -> None:
    (folder / "gnomon.toml").write_text(text)
    told = r"functions is gone; .*node\.app, such as shop:app, or start `gnomon worker shop:app`$"
    with pytest.raises(SettingsError, match=told):
        load({})


@pytest.mark.parametrize("name", ["GNOMON_FUNCTIONS", "GNOMON_TARGETS_FUNCTIONS"])
def test_functions_in_the_environment_are_told_of_apps(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"{name} is gone; .*node\.app"):
        load({name: "a=b:c"})


def test_every_former_name_has_become_a_setting() -> None:
    """One that is left out of the table would be ignored in silence."""
    settings = {(section, name) for section, kind in SECTIONS.items() for name in _names(kind)}
    settings -= LATER
    assert set(FORMER.values()) == settings
    assert len(FORMER) == len(settings)


def _names(kind: type[Section]) -> tuple[str, ...]:
    return kind.__struct_fields__


def test_unknown_variables_are_listed_and_harmless() -> None:
    environ = {
        "GNOMON_NODE_SLOTZ": "1",
        "GNOMON_NODE_SLOTS": "2",
        "GNOMON_TARGETS_WEBHOOK_SECRET_FILE": "",
        "PATH": "/bin",
    }
    assert unknown_variables(environ) == ["GNOMON_NODE_SLOTZ"]
    assert load(environ).node.slots == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("node.slots", "many"),
        ("node.slots", "0"),
        ("node.slots", "1.5"),
        ("node.prefetch", "-1"),
        ("api.port", "65536"),
        ("node.scan_seconds", "0"),
        ("node.scan_seconds", "nan"),
        ("node.horizon_seconds", "inf"),
        ("node.lease_seconds", "0.5"),
        ("node.lease_seconds", "nan"),
        ("node.drain_seconds", "-1"),
        ("output.log_format", "xml"),
        ("output.log_level", "loud"),
        ("auth.jwt_algorithms", "RS256,HS256"),
        ("auth.jwt_keep_seconds", "0"),
        ("node.serve_lanes", "HIGH,URGENT"),
    ],
)
def test_a_bad_value_is_named(name: str, text: str) -> None:
    section, _, own = name.partition(".")
    variable = variable_of(section, own)
    with pytest.raises(SettingsError, match=rf"^{variable}: {name}\b"):
        load({variable: text})


@pytest.mark.parametrize(
    "content",
    [
        "api.port = 80\nnode.slots = 0",
        "# node.slots = 1\n[node]\nslots = 0",
        "[api]\nport = 80\n\n[ node ]\nname = 'slots = 1'\n\"slots\" = 0",
    ],
    ids=["dotted", "table", "quoted"],
)
def test_a_bad_value_of_a_file_is_named_with_its_line(folder: Path, content: str) -> None:
    (folder / "gnomon.toml").write_text(content)
    line = len(content.splitlines())
    with pytest.raises(SettingsError, match=rf"^gnomon\.toml, line {line}: node.slots must"):
        load({})


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"node.slots = ", "not valid TOML"), (b'node.name = "\xff"', "not valid TOML")],
)
def test_a_broken_file_is_named(folder: Path, content: bytes, message: str) -> None:
    (folder / "gnomon.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=rf"gnomon\.toml is {message}"):
        load({})


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml cannot be read: No such file"):
        load({}, folder / "nowhere.toml")
    with pytest.raises(
        SettingsError, match="GNOMON_TARGETS_WEBHOOK_SECRET_FILE names nowhere: No such"
    ):
        load({"GNOMON_TARGETS_WEBHOOK_SECRET_FILE": "nowhere"})


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
    assert NodeSettings(slots=slots, critical_slots=critical).reserved_slots == kept


@pytest.mark.parametrize(
    ("name", "least", "too_little"),
    [
        *((f"node_{name}", 1, 0) for name in ("slots", "batch", "window", "lease_seconds")),
        *((f"node_{name}", 1e-3, 0) for name in ("scan_seconds", "timeout_grace_seconds")),
        *((f"node_{name}", 0, -1) for name in ("prefetch", "drain_seconds")),
        ("targets_threads", 1, 0),
        ("sharing_aging_seconds", 1e-3, 0),
        ("database_retention_days", 0, -1),
        *((name, 0, -1) for name in ("api_idempotency_seconds", "api_max_payload_bytes")),
        ("sharing_tenant_share", 0.01, 0),
        ("node_critical_slots", 0, -1),
        ("api_port", 0, -1),
        ("output_metrics_port", 0, -1),
    ],
)
def test_a_number_has_its_least_value(name: str, least: Any, too_little: Any) -> None:
    assert settings_with(**{name: least})
    with pytest.raises(ValueError, match=name.replace("_", ".", 1)):
        settings_with(**{name: too_little})


@pytest.mark.parametrize(
    ("name", "most", "too_much"),
    [
        ("sharing_tenant_share", 1, 1.01),
        ("node_critical_slots", 9, 10),
        ("api_port", 65535, 65536),
        ("output_metrics_port", 65535, 65536),
        *((name, 1e9, float("inf")) for name in ("node_scan_seconds", "node_drain_seconds")),
    ],
)
def test_a_number_has_its_largest_value(name: str, most: Any, too_much: Any) -> None:
    ten = settings_with(node_slots=10)
    assert settings_with(ten, **{name: most})
    with pytest.raises(ValueError, match=name.replace("_", ".", 1)):
        settings_with(ten, **{name: too_much})


@pytest.mark.parametrize("key", ["topsecret\r", "top\nsecret", "töpsecret", "top secret"])
def test_a_key_that_no_header_can_carry_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(SettingsError, match=r"^GNOMON_API_KEY: .* must be printable") as caught:
        load({"GNOMON_API_KEY": key})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": "http://redis"}, "pipe.url must start with one of redis://, rediss://, amqp://"),
        ({"url": "redis://"}, "pipe.url"),
        ({"url": "kafka://a:9092,:9093"}, "pipe.url"),
        ({"url": "redis://a:6379,b:6379"}, "pipe.url"),
        ({"url": "kafka://a", "namespace": "a:b"}, "pipe.namespace must have no : where"),
        ({"sasl_mechanism": "GSSAPI"}, "pipe.sasl_mechanism must be one of PLAIN"),
        ({"partitions": 0}, "pipe.partitions must be between 1 and 1000"),
        ({"namespace": "a b"}, "pipe.namespace"),
        ({"key_file": "k.pem"}, "pipe.key_file must be set with certificate_file"),
        ({"silence_seconds": 0.5}, "pipe.silence_seconds must be between 1 and 60"),
    ],
)
def test_a_pipe_that_cannot_be_used_is_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        PipeSettings(**given)


def test_a_pipe_is_shown_without_its_password() -> None:
    pipe = PipeSettings(url="rediss://u:secret@redis.example.com:6380/0")
    assert (pipe.where, pipe.is_local) == ("rediss://redis.example.com:6380", False)
    pipe = PipeSettings(url="kafkas://u:s%40cret@a.example.com:9092,127.0.0.1:9093")
    assert (pipe.where, pipe.is_local) == ("kafkas://a.example.com:9092,127.0.0.1:9093", False)
    assert (pipe.place, pipe.password) == ("kafka", "s@cret")
    assert PipeSettings(url="kafka://localhost:9092,[::1]:9093").is_local
    assert PipeSettings(url="redis://127.0.0.1").is_local
