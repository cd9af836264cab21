"""The parts of pages that are pure: filters, trees, drawings, words."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gnomon.api.tasks.bulk_operations import BulkTaskFilter
from gnomon.api.tasks.schemas import TaskFilterQuery
from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.drawing.shard_map import letter, shard_map
from gnomon.dashboard.rendering import literal, moment
from gnomon.dashboard.signing_in import _own_path
from gnomon.dashboard.text import words
from gnomon.dashboard.text.json_tree import shown_json
from gnomon.model.errors import InvalidTask
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.tasks.lifecycle import Status

NODES = [(UUID(int=n), f"node-{n}") for n in range(3)]


@pytest.mark.parametrize("value", ["plain", "two words", 'a "quoted" \\ one', "a:b", "ü\u202e"])
def test_a_filter_survives_being_written(value: str) -> None:
    tokens = {"status": "READY", "tag": value}
    assert filter_tokens.parsed(filter_tokens.written(tokens)) == tokens


def test_a_filter_is_the_api_s() -> None:
    tokens = filter_tokens.parsed("status:ready type:a id:01a")
    chosen = filter_tokens.query_of(tokens, TaskFilterQuery).chosen()
    assert (chosen.status, chosen.task_type) == (Status.READY, "a")
    assert chosen.ids is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hello", "no condition"),
        ("color:red", "nothing here is called 'color'"),
        ("tag:a tag:b", "given twice"),
        ("x" * 3000, "longer"),
    ],
)
def test_a_wrong_filter_says_what_would_be_right(text: str, why: str) -> None:
    with pytest.raises(InvalidTask, match=why):
        filter_tokens.parsed(text)


def test_the_filter_of_an_operation_reads_as_it_was_written() -> None:
    text = 'status:FAILED priority:HIGH after:2030-01-01T00:00:00+00:00 id:01a error:"a b"'
    tokens = filter_tokens.parsed(text)
    chosen = filter_tokens.query_of(tokens, BulkTaskFilter).chosen()
    assert filter_tokens.written(filter_tokens.tokens_of(chosen)) == text


def test_a_chip_leads_to_the_list_without_it() -> None:
    chips = filter_tokens.chips({"tag": "a b", "queue": "q"}, "/tasks")
    assert [chip.rest for chip in chips] == ["/tasks?q=queue%3Aq", "/tasks?q=tag%3A%22a%20b%22"]


def test_numbers_are_shown_as_they_were_written() -> None:
    tree = shown_json(b'{"n": 9223372036854775809, "f": 1.10, "n": 1e400}').tree
    assert tree is not None
    assert [each.text for each in tree.members] == ["9223372036854775809", "1.10", "1e400"]


@pytest.mark.parametrize("text", [b"[" * 200_000 + b"]" * 200_000, b"no"])
def test_what_cannot_be_a_tree_is_text(text: bytes) -> None:
    found = shown_json(text)
    assert found.tree is None
    assert text.decode().startswith(found.text)
    assert len(found.text) <= 65_536


def test_what_hides_in_text_is_visible() -> None:
    assert literal("a\u202eb\x00") == "a⟨U+202E⟩b⟨U+0000⟩"
    assert literal("line\n\ttab") == "line\n\ttab"


def test_every_shard_has_a_cell() -> None:
    owned = {NODES[0][0]: range(100), NODES[1][0]: range(50, 200)}
    svg = shard_map(NODES, owned)
    assert svg.count("<title>") == SHARDS
    assert "200 of 256 shards are served" in svg
    assert "shard 60: node-0, node-1" in svg
    assert "shard 255: nobody" in svg


def test_letters_of_many_nodes() -> None:
    assert [letter(n) for n in (0, 25, 26)] == ["A", "Z", "A1"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "\u2013"), (0.25, "250 ms"), (12.34, "12.3 s"), (61, "1 min 1 s"), (7200, "2 h"),
     (90_000, "1 d 1 h")],
)  # fmt: skip
def test_lengths_of_time(seconds: float | None, text: str) -> None:
    assert words.span(seconds) == text


def test_a_moment_is_in_utc() -> None:
    at = datetime(2026, 1, 1, 1, tzinfo=UTC) + timedelta(hours=1)
    assert 'datetime="2026-01-01T02:00:00+00:00"' in moment(at)


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb", "", "/ü"]
)
def test_nobody_is_sent_to_another_site(path: str) -> None:
    assert _own_path(path) == "/"
    assert _own_path("/tasks?q=a") == "/tasks?q=a"
