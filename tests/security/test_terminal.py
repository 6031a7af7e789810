"""What jobs put into rows and paths does not steer the terminal of who traces them."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

import lineage
from lineage.notebook import NotebookError
from lineage.tables import console, table_of
from lineage.terminal import echo
from lineage.tracing import _show
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item
from lineage_query.showing import ItemGroup, Showing, print_text

pytestmark = pytest.mark.security
EVIL = "a\x1b]52;c;ZXZpbA==\x07\x9b2J\u202eb"


def answer() -> Answer:
    item = Item("0#0#0", f"{EVIL}:1", EVIL)
    group = Group("0", "read", "textFile", EVIL, 1, (item,))
    return Answer(
        "app-1", Direction.BACKWARD, ("1#0#0",), (), False, (EVIL,), (group,), (EVIL,), False, True
    )


def test_rows_do_not_steer_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("NO_COLOR", "1")
    _show(answer(), "")
    said = capsys.readouterr()
    told = said.out + said.err
    assert told.count("a\\x1b]52;c;ZXZpbA==\\x07\\x9b2J\\u202eb") >= 4
    for sign in ("\x1b]", "\x07", "\x9b", "\u202e"):
        assert sign not in told


def test_a_program_is_given_rows_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    _show(answer(), "")
    assert f"{EVIL}:1: {EVIL}" in capsys.readouterr().out


def test_tables_do_not_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of("name")
    table.add_row(EVIL)
    console().print(table)
    assert "\\x1b]52" in capsys.readouterr().out


def test_spaces_and_letters_of_all_kinds_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    echo("\u00fc\u00a0\u4e16\t|\u3000|")
    assert capsys.readouterr().out == "\u00fc\u00a0\u4e16\t|\u3000|\n"


def test_commands_print_by_one_function() -> None:
    by_typer = {
        file.name
        for file in Path(lineage.__file__).parent.rglob("*.py")
        if re.search(r"typer\.s?echo\(", file.read_text(encoding="utf-8"))
    }
    # The line that waiting writes over again holds codes of its own.
    assert by_typer == {"terminal.py", "waiting.py"}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rows_that_a_program_shows_steer_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    row = "a\x1b]0;title\x07\u202eb"
    showing = Showing([ItemGroup("rows", [("in.txt:1", row)], 0)], [], [], [row])
    for made in (_Terminal, io.StringIO):
        out = made()
        monkeypatch.setattr(sys, "stdout", out)
        print_text(showing)
        # A file gets what is there.
        assert ("\x1b" in out.getvalue()) == (made is io.StringIO)
        assert ("\\x1b]0;title\\x07\\u202eb" in out.getvalue()) == (made is _Terminal)


def test_errors_of_a_notebooks_magics_steer_no_terminal() -> None:
    """IPython in a terminal prints them as they are."""
    (line,) = NotebookError(f"{EVIL} is no application\n")._render_traceback_()
    assert line == "lineage: a\\x1b]52;c;ZXZpbA==\\x07\\x9b2J\\u202eb is no application\n"
