"""What commands show of text that anybody may have made up."""

import io
import json
from contextlib import redirect_stdout

import pytest

from gnomon.cli.shared import output

# Clears the screen, sets the title of the window, moves the cursor, turns the text around.
HOSTILE = "\x1b[2Ja\x9b31mb\x1b]0;owned\x07c\rd\x08e\x7f\u202ef\u2066g"
STEERING = set("\x1b\x9b\x07\r\x08\x7f\u202e\u2066")


def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setenv("NO_COLOR", "1")
    return io.StringIO()


def test_tables_fields_and_lines_steer_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with redirect_stdout(shown(monkeypatch)) as text:
        output.table(["name"], [[HOSTILE]])
        output.fields([("name", HOSTILE)])
        output.line(HOSTILE)
        output.echo(HOSTILE)
    assert not STEERING & set(text.getvalue())
    assert text.getvalue().count("\\u001b[2Ja") == 4


def test_documents_are_the_same_json_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with redirect_stdout(shown(monkeypatch)) as text:
        output.document({"name": HOSTILE, "kept": "ä€😀\t"})
    assert not STEERING & set(text.getvalue())
    assert json.loads(text.getvalue()) == {"name": HOSTILE, "kept": "ä€😀\t"}


def test_what_is_no_control_stays() -> None:
    assert output.visible("a\tb\nc — ä 😀 \u200d") == "a\tb\nc — ä 😀 \u200d"
