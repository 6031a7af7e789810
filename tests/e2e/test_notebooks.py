"""Notebooks, executed by a kernel of their own: the examples, and what a magic does with cells that fail or are hostile."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.support.job_runs import environment

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "examples" / "notebooks"
EXAMPLES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
PAGE = "http://127.0.0.1:9/lineage/#token=SECRET"
CELLS = (
    "%load_ext lineage",
    "%%lineage\nprint('ran')",
    """
from pathlib import Path
from pyspark.sql import SparkSession

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
Path("in.txt").write_text(f"{EVIL} $a$\\nb\\n", encoding="utf-8")
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
early = spark.sparkContext.parallelize([1])
""",
    "%%lineage\n_ = spark.range(3).count(), early.count()",
    "%%lineage\nlines = spark.sparkContext.textFile('in.txt', 1)\nlines.map(str.upper).saveAsTextFile('out')",
    "%lineage back out/part-00000:1",
    "%lineage back out/part-00000:9",
    "%%lineage\nlines.map(lambda line: line[9999]).count()",
    "%%lineage\n1 +",
    "%%lineage\nlast = lines.count()\nlast",
    "%lineage",
    "lines.getLineage().filter(lambda line: '<' in line)",
    "%%lineage\nspark.stop()",
)


def execute(notebook: Any, folder: Path, *, errors: bool = False) -> list[Any]:
    """The outputs of each cell of code."""
    client = NotebookClient(
        notebook, timeout=300, allow_errors=errors, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment({"LINEAGE_PAGE_URL": PAGE, "JUPYTER_PLATFORM_DIRS": "1"}))
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def shown(outputs: list[Any], kind: str = "text/plain") -> str:
    """What a cell shows and prints."""
    return "\n".join(
        one.text if one.output_type == "stream" else one.get("data", {}).get(kind, "")
        for one in outputs
    )


def check_html(outputs: list[Any]) -> None:
    """Renderers of notebooks (Jupyter, VS Code, Databricks) show it as it is: nothing runs, nothing is loaded."""
    for one in outputs:
        data = one.get("data", {})
        if "text/html" not in data:
            continue
        html = data["text/html"]
        assert data["text/plain"] is not None
        assert not re.search(
            r"<\s*(script|style|iframe|img|link|object|embed|form|base|meta)\b", html, re.I
        )
        assert not re.search(r"<[^>]*\son\w+\s*=", html, re.I)
        assert not re.search(r"(src|srcset|url\()\s*=?", re.sub(r">[^<]*<", "><", html), re.I)
        links = re.findall(r'href="([^"]*)"', html)
        assert all(link.startswith("http://127.0.0.1:9/lineage/apps/local-") for link in links)
        assert "SECRET" not in html


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_answers_what_it_asks(example: str, tmp_path: Path) -> None:
    outputs = execute(nbformat.read(NOTEBOOKS / f"{example}.ipynb", 4), tmp_path)
    for one in outputs:
        check_html(one)
    texts = [shown(one) for one in outputs]
    if example == "records":
        data, _, cell, back, rows, replayed, graph, forward, verdict, _ = texts
        assert data == ""
        assert "('ann', 1326)" in cell
        assert "%lineage back" in cell
        assert "from 3 rows of" in back
        for line in ("orders.csv:1: ann,12", "orders.csv:3: ann,1300", "orders.csv:6: ann,14"):
            assert line in back
            assert line in rows
        assert "bob" not in back + rows
        assert replayed == "[('ann', 26)]"
        assert "textFile" in graph
        assert "part-00000:1: ('ann', 1326)" in forward
    else:
        _, _, cell, back, by_file, forward, verdict, _ = texts
        assert "24020" in cell
        for answer in (back, by_file):
            assert [int(row) for row in re.findall(r"sales\.csv:(\d)", answer)] == [2, 4, 6]
            assert "23900" in answer
        assert "24020" in forward
    for text in (back, forward):
        assert "exact" in text.splitlines()
    assert re.search(r": complete \(ok\)", verdict)
    assert "answerable: rows of all captured outputs can be traced" in verdict


def test_examples_are_kept_without_outputs() -> None:
    assert EXAMPLES == ["dataframes", "records"]
    for example in EXAMPLES:
        for cell in json.loads((NOTEBOOKS / f"{example}.ipynb").read_text(encoding="utf-8"))[
            "cells"
        ]:
            if cell["cell_type"] == "code":
                assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_cells_show_what_they_added_and_end_as_they_would_without_capture(tmp_path: Path) -> None:
    outputs = execute(new_notebook(cells=list(map(new_code_cell, CELLS))), tmp_path, errors=True)
    for one in outputs:
        check_html(one)
    _, early, _, frames, first, back, absent, failed, broken, valued, so_far, items, stopped = (
        outputs
    )
    assert ("ran" in shown(early), early[-1].ename) == (False, "NotebookError")
    assert "make one in a cell before this one" in early[-1].evalue
    assert early[-1].traceback == [f"lineage: {early[-1].evalue}"]
    assert "df.lineage().back(row)" in shown(frames)
    assert "incomplete: " in shown(frames)
    assert "it was made before this capture began" in shown(frames)
    assert "%lineage back" in shown(first)
    assert "/apps/local-" in shown(first)
    assert "in.txt:1: <img src=x" in shown(back)
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown(back, "text/html")
    assert absent[-1].ename == "NotebookError"
    # The program's own error, told once: the shell's last word has no traceback.
    errors = [one for one in failed if one.output_type == "error"]
    assert [bool(one.traceback) for one in errors] == [True, False]
    assert {one.ename for one in errors} == {errors[0].ename}
    assert "IndexError" in "".join(errors[0].traceback)
    assert shown(failed).count("incomplete: ") > shown(first).count("incomplete: ")
    assert broken[-1].ename == "SyntaxError"
    assert "2" in shown(valued).split()
    assert "count" in shown(so_far)
    assert "saveAsTextFile" in shown(so_far) or "out" in shown(so_far)
    assert "&lt;script&gt;" in shown(items, "text/html")
    assert "has ended" in shown(stopped)
