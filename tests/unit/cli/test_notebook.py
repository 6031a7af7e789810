"""The magics of notebooks, as far as they need no Spark."""

from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from pyspark import SparkContext

import lineage
from lineage import notebook

pytestmark = pytest.mark.unit


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What magics need of a notebook's shell; a cell that runs in it is a failure."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    return SimpleNamespace(user_ns={}, run_cell=lambda *_: pytest.fail("the cell ran"))


def test_without_a_session_the_cell_does_not_run_and_is_told_what_to_do(shell: Any) -> None:
    with pytest.raises(
        notebook.NotebookError, match="make one in a cell before this one, spark = "
    ):
        notebook.run_cell(shell, "", "1 / 0")
    with pytest.raises(notebook.NotebookError, match="begin a cell with %%lineage"):
        notebook.run_line(shell, "")


def test_a_session_of_spark_connect_is_refused_for_having_no_rdds(shell: Any) -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    shell.user_ns["spark"] = connect()
    with pytest.raises(
        notebook.NotebookError, match=r"Spark Connect .* RDDs, .*, are not there"
    ) as told:
        notebook.run_cell(shell, "", "1 / 0")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("line", ["sideways x:1", "back", "forward", "'back"])
def test_lines_that_ask_nothing_are_told_how(shell: Any, line: str) -> None:
    with pytest.raises(notebook.NotebookError, match=r"usage: %lineage|No closing quotation"):
        notebook.run_line(shell, line)


def test_settings_of_a_cell_have_names(shell: Any) -> None:
    assert notebook._settings("store='sqlite:///a b.db' detailed=true") == {
        "store": "sqlite:///a b.db",
        "detailed": "true",
    }
    with pytest.raises(notebook.NotebookError, match="'detailed' is no SETTING=VALUE"):
        notebook.run_cell(shell, "detailed", "1 / 0")


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("", ""),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/apps/a%2F%22b"),
        ("https://lineage.example/x/#token=SECRET", "https://lineage.example/x/apps/a%2F%22b"),
        ("https://lineage.example/?token=SECRET", "https://lineage.example/apps/a%2F%22b"),
    ],
)
def test_links_lead_to_the_page_without_its_token(
    url: str, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(notebook.PAGE_URL, url)
    assert notebook._page('a/"b') == page


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///x", "http://me:SECRET@host", "http://", "host"]
)
def test_an_address_that_is_none_of_a_page_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(notebook.PAGE_URL, url)
    with pytest.raises(notebook.NotebookError, match=r"must be http\(s\)://HOST") as told:
        notebook._page("app")
    assert "SECRET" not in str(told.value)


def test_the_extension_adds_its_magics_and_takes_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    shell = InteractiveShell()
    lineage.load_ipython_extension(shell)
    result = shell.run_cell("%%lineage\nraise SystemExit", store_history=False)
    assert isinstance(result.error_in_exec, notebook.NotebookError)
    lineage.unload_ipython_extension(shell)
    assert "lineage" not in {
        **shell.magics_manager.magics["line"],
        **shell.magics_manager.magics["cell"],
    }
    # A second time is no fault.
    lineage.unload_ipython_extension(shell)


def test_an_error_is_hidden_once() -> None:
    error = ValueError("x")
    notebook._hide_once(error)
    assert error._render_traceback_() == []  # type: ignore[attr-defined]
    assert not hasattr(error, "_render_traceback_")
