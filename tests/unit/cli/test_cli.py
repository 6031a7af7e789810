import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lineage import options, running
from lineage.access import StoredAccess, open_access
from lineage.dlq import _show_table
from lineage.main import app
from lineage.tables import show_apps, show_graph
from lineage_core.contract.block import BlockId
from lineage_core.contract.dead_letter import DeadRecord, TopicPartitionOffset
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.message import Link, Split, Splits
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.folding import Fold
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_kafka.dead_letters import DeadLetterRecord
from lineage_query import exports
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.planning import ApplicationQuery
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_store.port import ApplicationRecord
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import spool_of
from tests.support.spool_builder import Spool, block
from tests.support.stored_lineage import spool_run, store_run

pytestmark = pytest.mark.unit


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the default store."""
    monkeypatch.chdir(tmp_path)
    for name in ("LINEAGE_STORE", "LINEAGE_SPOOL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".lineage").mkdir()
    store_run("sqlite:///.lineage/lineage.db", tmp_path)
    return tmp_path


def lineage(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def as_json(*arguments: str) -> Any:
    result = lineage(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_back_as_json_has_the_shape_that_tools_rely_on(here: Path) -> None:
    found = as_json("back", "out/part-00000:2")
    assert found["app"] == "app-1"
    assert found["direction"] == "backward"
    assert found["from"] == ["out/part-00000:2"]
    assert found["exact"] is True
    (source,) = found["sources"]
    assert (source["node"], source["path"], source["count"]) == ("0", "in.txt", 3)
    assert source["items"] == [
        {"address": "read#0#0", "location": "in.txt:1", "text": "a b", "binding": "state"},
        {"address": "read#0#1", "location": "in.txt:2", "text": "b", "binding": "state"},
        {"address": "read#1#2", "location": "in.txt:4", "text": "b", "binding": "state"},
    ]
    (sink,) = as_json("forward", "in.txt:2")["sinks"]
    assert [item["location"] for item in sink["items"]] == ["out/part-00000:2", "out/part-00000:3"]
    (short,) = as_json("back", "out/part-00000:2", "--limit", "1")["sources"]
    assert (short["count"], len(short["items"])) == (3, 1)


def test_forward_says_whose_rows_they_are(here: Path) -> None:
    store_run("sqlite:///.lineage/lineage.db", here, "app-2", started_at=2e9)
    result = lineage("forward", "in.txt:1")
    headings = [line for line in result.stdout.splitlines() if line.startswith("into")]
    assert headings == ["into 2 rows of out (write, app-2)", "into 2 rows of out (write, app-1)"]
    told = as_json("forward", "in.txt:1")
    assert (told["apps"], told["not_asked"], told["complete"]) == (["app-2", "app-1"], [], True)
    assert [one["app"] for one in told["sinks"]] == ["app-2", "app-1"]
    for name in ("latest", "app-2"):
        result = lineage("forward", "in.txt:1", "--app", name)
        assert "into 2 rows of out (write)" in result.stdout
        assert result.stdout.count("into") == 1
    table = lineage("export", "in.txt:1", "--direction", "forward").stdout
    assert [table.count(name) for name in ("app-1", "app-2")] == [2, 2]
    refused = lineage("export", "in.txt:1", "--direction", "forward", "--format", "prov")
    assert "several applications: --app chooses one" in refused.stderr


def test_back_reads_like_grep(here: Path) -> None:
    result = lineage("back", "out/part-00000:2", "--limit", "2")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "out/part-00000:2: b",
        "",
        "from 3 rows of in.txt (read)",
        "in.txt:1: a b",
        "in.txt:2: b",
        "... and 1 more (--limit N lists more)",
    ]
    assert "carriage returns" in result.stderr
    assert "one\\ntwo" not in lineage("back", "write#0#2").stdout
    assert "out/part-00000:3: two\\nlines" in lineage("back", "write#0#2").stdout


def test_one_step_and_a_node_on_the_way(here: Path) -> None:
    step = as_json("back", "write#0#1", "--step")
    assert step["sources"] == as_json("back", "write#0#1", "--to", "2")["sources"]
    assert step["sources"][0]["items"][0]["location"] is None
    refused = lineage("back", "write#0#1", "--to", "1")
    assert refused.exit_code == 2
    assert "keeps no items of its own" in refused.stderr


def test_apps_and_graph(here: Path) -> None:
    (one,) = as_json("apps")
    assert (one["app"], one["name"], one["status"], one["flows"]) == ("app-1", "job", "ok", 10)
    assert "app-1" in lineage("apps").stdout
    found = as_json("graph")
    assert [node["node"] for node in found["nodes"]] == ["0", "1", "2", "3"]
    assert found["links"][0] == {"src": "0", "dest": "1"}
    table = lineage("graph", "app-1").stdout
    assert "reduceByKey" in table
    assert max(map(len, table.splitlines())) <= 80
    mermaid = lineage("graph", "--mermaid", "app").stdout.splitlines()
    assert mermaid[0] == "flowchart LR"
    assert '    n0[("read<br/>textFile<br/>in.txt")]' in mermaid
    assert "    n2 --> n3" in mermaid


def test_nodes_that_a_loop_made_are_one_line(here: Path) -> None:
    spool = Spool(here / "spool", "loop")
    spool.begin(2e9)
    spool.node("0", "source", "textFile", alias="read", path="in.txt", call_path="a.0")
    for turn in range(3):
        at, reason = 2 * turn, "keys told apart by hash" if turn else ""
        site = {"call_site": "job.py:14", "name": "reduceByKey"}
        spool.node(f"{at + 1}", "shuffle", "combineByKey", call_path="b.0", **site)
        spool.node(f"{at + 2}", "operator", call_path="b.1", exact=not turn, reason=reason, **site)
        spool.send(*(Link(app="loop", src=f"{at + n}", dest=f"{at + n + 1}") for n in range(2)))
        flows = [(f"{at + 1}@0", [([0], 1), ([1], 2)])]
        made = block(BlockId(f"{at + 1}", 0, turn, 0), "0#0", flows, app="loop")
        spool.task(f"{at + 1}", 0, turn, [made])
    spool.node("7", "operator", name="reduceByKey", call_site="job.py:14")
    for n in "89":
        spool.node(n, "sink", "save", path=f"out-{n}", alias="write", call_path="c.0")
    spool.end()
    with SqliteStore(here / ".lineage" / "lineage.db") as store:
        ingest_all(store, here / "spool")

    def rows(*options: str) -> list[list[str]]:
        table = lineage("graph", "loop", *options).stdout.splitlines()
        return [line.split() for line in table[2:]]

    assert rows()[:6] == [
        ["0", "textFile", "(read)", "in.txt", "yes"],
        ["1", "0,2", "reduceByKey", "x3", "job.py:14", "6", "yes"],
        ["2", "1", "reduceByKey", "x3", "job.py:14", "superset"],
        ["7", "reduceByKey", "job.py:14", "yes"],
        ["8", "save", "(write:out-8)", "out-8", "yes"],
        ["9", "save", "(write:out-9)", "out-9", "yes"],
    ]
    assert " ".join(rows()[6]) == "node 2: keys told apart by hash"
    assert " ".join(rows()[7]) == "2 lines stand for 6 nodes made in loops; --unfold lists each"
    assert [row[0] for row in rows("--unfold")[:10]] == [str(n) for n in range(10)]
    drawn = lineage("graph", "loop", "--mermaid").stdout.splitlines()
    assert "    n2 --> n1" in drawn
    assert '    n2["2<br/>reduceByKey x3<br/>job.py:14<br/>superset"]' in drawn
    assert "    n2 --> n3" in lineage("graph", "loop", "--mermaid", "--unfold").stdout
    groups = {node["node"]: node["group"] for node in as_json("graph", "loop")["nodes"]}
    assert [groups[str(n)] for n in range(9)] == [None, *"121212", None, None]


def test_graph_and_verify_agree_on_what_is_exact(here: Path) -> None:
    spool = Spool(here / "spool", "wider")
    spool.begin(2e9)
    spool.node("0", "source", "textFile", alias="read")
    spool.node("1", "shuffle", "combineByKey")
    spool.node("2", "unknown", "RDD.glom", exact=False, reason="not captured")
    spool.task("1", 0, 0, [], superset_reasons=("keys told apart by hash",))
    spool.end()
    with SqliteStore(here / ".lineage" / "lineage.db") as store:
        ingest_all(store, here / "spool")
    verdict = json.loads(lineage("verify", "wider", "--json").stdout)
    assert verdict["superset"] == {"1": ["keys told apart by hash"]}
    nodes = {node["node"]: node for node in as_json("graph", "wider")["nodes"]}
    assert [nodes[name]["exact"] for name in "012"] == [True, False, False]
    assert nodes["1"]["reason"] == "keys told apart by hash"
    table = lineage("graph", "wider").stdout
    assert "node 1: keys told apart by hash" in table
    assert "superset" in next(line for line in table.splitlines() if line.startswith("1"))
    assert "unknown" in next(line for line in table.splitlines() if line.startswith("2"))
    assert "combineByKey<br/>superset" in lineage("graph", "wider", "--mermaid").stdout


def test_a_row_that_two_nodes_read_is_printed_once(here: Path) -> None:
    spool = Spool(here / "spool", "twice")
    spool.begin(2e9)
    for name in "01":
        spool.node(name, "source", "textFile", alias=f"read:{name}", path="in.txt")
        stat = (here / "in.txt").stat()
        split = Split(
            partition=0, path=f"file:{here}/in.txt", start=0, length=stat.st_size,
            file_size=stat.st_size, mtime=stat.st_mtime,
        )  # fmt: skip
        spool.send(Splits(app="twice", node=name, splits=(split,)))
    spool.end()
    with SqliteStore(here / ".lineage" / "lineage.db") as store:
        ingest_all(store, here / "spool")
    told = lineage("forward", "in.txt:2", "--app", "twice")
    assert told.stdout.splitlines() == ["in.txt:2: b", "into nothing: no item was found"]
    assert len(as_json("forward", "in.txt:2", "--app", "twice")["start"]) == 2


def test_verify_says_complete_or_not(here: Path) -> None:
    found = as_json("verify")
    assert found["complete"] is True
    assert found["tasks"] == {"expected": 3, "committed": 3}
    assert found["blocks"] == {"expected": 3, "written": 3, "received": 3, "linked": 3, "stubs": 0}
    assert (found["flows"], found["reasons"]) == (10, [])
    assert "complete" in lineage("verify", "latest").stdout
    store_run("sqlite:///.lineage/lineage.db", here, "app-2", started_at=2e9, committed=False)
    for arguments in (("verify",), ("verify", "app-2"), ("verify", "--json")):
        assert lineage(*arguments).exit_code == 1
    told = json.loads(lineage("verify", "--json").stdout)
    assert told["complete"] is False
    assert told["reasons"]
    assert "incomplete" in lineage("back", "write#0#1", "--app", "app-2").stderr


def test_rm_removes_all_of_it(here: Path) -> None:
    store_run("sqlite:///.lineage/lineage.db", here, "app-2", started_at=2000.0)
    left = here / ".lineage" / "spool" / "app-1"
    left.mkdir(parents=True)
    assert as_json("rm", "app-1") == {"removed": ["app-1"]}
    assert [one["app"] for one in as_json("apps")] == ["app-2"]
    assert not left.exists()
    assert lineage("rm", "app-1").exit_code == 2
    assert lineage("rm", "latest").stdout == "removed app-2\n"
    assert as_json("apps") == []
    assert "holds no application" in lineage("verify").stderr


def test_link_stores_what_waits_and_can_be_repeated(here: Path) -> None:
    assert "nothing to link" in lineage("link").stdout
    spool_run(here / ".lineage" / "spool", here, "app-2", started_at=2000.0)
    (report,) = as_json("link")
    assert (report["app"], report["tasks"], report["blocks"]) == ("app-2", 3, 3)
    assert as_json("link") == []
    assert as_json("back", "out/part-00000:2")["app"] == "app-2"
    spool_run(here / "elsewhere", here, "app-3", started_at=3000.0)
    assert "app-3: 3 tasks" in lineage("link", "--spool", str(here / "elsewhere")).stdout


def test_the_store_is_named_before_or_after_the_command_or_in_the_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{here}/other.db"
    store_run(url, here, "other")
    assert as_json("--store", url, "apps")[0]["app"] == "other"
    assert as_json("apps", "--store", url)[0]["app"] == "other"
    monkeypatch.setenv("LINEAGE_STORE", url)
    assert as_json("apps")[0]["app"] == "other"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("back", "gone.txt:1"), "no such file"),
        (("back", "out/part-00000:99"), "there is no line 99"),
        (("back", "out:1"), "PATH:LINE"),
        (("back", "nobody#0#1"), "known: read, write"),
        (("verify", "nobody"), "lineage apps"),
        (("graph", "--store", "mysql://x"), "sqlite:///PATH"),
        (("apps", "--store", "sqlite:///nowhere.db"), "lineage run JOB"),
    ],
)
def test_errors_say_what_to_do(here: Path, arguments: tuple[str, ...], message: str) -> None:
    result = lineage(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    told = lineage(*arguments, "--json")
    assert told.exit_code == 2
    assert message in json.loads(told.stdout)["error"]["message"]


def test_a_store_that_is_none_is_refused(here: Path) -> None:
    (here / "text.db").write_text("no database at all, but long enough to be looked at" * 30)
    result = lineage("apps", "--store", f"sqlite:///{here}/text.db")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


JOB = """
import os, signal, sys
print("args", sys.argv[1:], os.environ["LINEAGE_STORE"])
print("to stderr", file=sys.stderr)
data = sys.stdin.read()
print("stdin", data)
how = sys.argv[1]
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(how))
"""


@pytest.fixture
def stand_in(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in place of capture's: the command starts it as it would the real one."""
    package = here / "modules" / "lineage_emitter"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "autorun.py").write_text("import sys; exec(open(sys.argv.pop(1)).read())")
    monkeypatch.setenv("PYTHONPATH", str(here / "modules"))
    job = here / "job.py"
    job.write_text(JOB)
    return job


def run_command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from lineage.main import app; app()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def test_run_leaves_the_job_as_it_is(stand_in: Path, here: Path) -> None:
    result = run_command("run", "job.py", "3", "--json", "-q", "--", "x y", input="given")
    assert result.returncode == 3
    store = f"sqlite:///{here}/.lineage/lineage.db"
    assert result.stdout == f"args ['3', '--json', '-q', '--', 'x y'] {store}\nstdin given\n"
    assert result.stderr.startswith("to stderr\n")
    assert "no SparkContext was started" in result.stderr
    quiet = run_command("run", "--quiet", "job.py", "0", input="")
    assert (quiet.returncode, quiet.stderr) == (0, "to stderr\n")
    assert run_command("run", "-q", "job.py", "kill", input="").returncode == 128 + signal.SIGKILL


def test_run_sums_up_what_was_captured(stand_in: Path, here: Path) -> None:
    stand_in.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from tests.support.stored_lineage import spool_run\n"
        "from lineage_store.run_notes import note_application\n"
        "for app in ('new', 'of another run at once'):\n"
        "    spool_run(Path('.lineage/spool'), Path.cwd(), app, started_at=2000.0)\n"
        "note_application('new', Path('.lineage/spool/new'))\n"
    )
    root = str(Path(__file__).parents[3])
    result = run_command("run", "job.py", root)
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "lineage: new: complete, answerable, 10 flows in 3 blocks; next: lineage back"
    )
    assert as_json("back", "write#0#1")["app"] == "new"
    assert "--store" not in line
    assert (here / ".lineage/spool/of another run at once/driver.jsonl").exists()
    assert [one["app"] for one in as_json("apps")] == ["new", "app-1"]
    stand_in.write_text(
        "from lineage_store.run_notes import note_application\nnote_application('new', 'gone')\n"
    )
    (told,) = json.loads(run_command("run", "--json", "job.py").stderr)["applications"]
    assert (told["app"], told["complete"]) == ("new", True)
    (here / "else where").mkdir()
    (here / ".lineage/lineage.db").rename(here / "else where/lineage.db")
    elsewhere = "sqlite:///else where/lineage.db"
    line = run_command("--store", elsewhere, "run", "job.py").stderr.splitlines()[0]
    assert line.endswith(
        "; next: lineage back OUTPUT_FILE:LINE --store 'sqlite:///else where/lineage.db'"
    )


def test_run_says_why_nothing_was_captured(stand_in: Path, here: Path) -> None:
    stand_in.write_text(
        "from lineage_store.run_notes import note_uncaptured\n"
        "note_uncaptured('capture is switched off')\n"
    )
    result = run_command("run", "job.py")
    assert result.stderr == "lineage: nothing was captured: capture is switched off\n"
    stand_in.write_text(
        "from lineage_store.run_notes import note_application\n"
        "note_application('elsewhere', 'nowhere')\n"
    )
    result = run_command("run", "job.py")
    assert result.stderr == (
        "lineage: elsewhere: nothing of it is in sqlite:///.lineage/lineage.db\n"
    )


def test_run_passes_signals_on(stand_in: Path, here: Path) -> None:
    stand_in.write_text(
        "import signal, sys, time\n"
        "def stop(number, frame):\n    sys.exit(40 + number)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", "from lineage.main import app; app()", "run", "-q", "job.py"]
    for number, to_group in ((signal.SIGTERM, False), (signal.SIGINT, True)):
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            if to_group:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            assert process.wait(30) == 40 + number


def test_the_version_and_help_come_quickly() -> None:
    begin = time.perf_counter()
    result = run_command("--version")
    assert result.stdout.startswith("lineage ")
    assert time.perf_counter() - begin < 10
    loaded = run_command("--help")
    assert loaded.returncode == 0
    for command in ("run", "link", "apps", "graph", "back", "forward", "verify", "rm"):
        assert command in loaded.stdout


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (("--help",), ("numpy", "pyarrow", "pyspark", "sqlite3", "pydantic")),
        (("back", "--help"), ("pyarrow", "pyspark", "sqlite3")),
        # Nothing is there to be asked; all that a question over an embedded store takes is loaded by then.
        (("back", "out:1"), ("pyarrow.compute", "pyarrow.parquet", "pyspark", "neo4j", "httpx")),
    ],
)
def test_a_command_loads_nothing_heavy_that_it_does_not_use(
    tmp_path: Path, words: tuple[str, ...], heavy: tuple[str, ...]
) -> None:
    code = f"""
import sys
from lineage.main import app
try:
    app({list(words)!r})
except SystemExit:
    print("loaded", [name for name in {heavy!r} if name in sys.modules])
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert found.stdout.splitlines()[-1] == "loaded []"


def test_a_reader_that_leaves_early_is_no_error(here: Path) -> None:
    command = f"{sys.executable} -c 'from lineage.main import app; app()' back write#0#1 | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr


def test_the_spool_is_beside_the_store_or_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LINEAGE_SPOOL", raising=False)
    assert spool_of("sqlite:////a/b.db") == Path("/a/spool")
    monkeypatch.setenv("LINEAGE_SPOOL", "file:///c/d")
    assert spool_of("sqlite:////a/b.db") == Path("/c/d")
    assert running.FORWARDED


def test_tables_are_whole_where_no_terminal_reads_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    long, tagged = "n" * 300, "[bold]a :smile: [/bold]"
    show_apps([ApplicationRecord(long, tagged, 0.0, None, "ok", 1, 1)])
    node = NodeRecord("0", "source", "read", long, "", "", None, False, long, 1, f"{long}/in.txt")
    show_graph([Fold((node,))], [])
    dead = DeadRecord(TopicPartitionOffset("lineage-edge", 2, 1), long, "writer", 1.0)
    _show_table([DeadLetterRecord(0, 1, dead, None, None)])
    _, _, app_row, _, _, node_row, why, _, _, letter_row = capsys.readouterr().out.splitlines()
    assert long in app_row
    assert tagged in app_row
    assert f"{long}/in.txt" in node_row
    assert why == f"node 0: {long}"
    assert f"writer: {long}" in letter_row


def late(*_: object) -> Any:
    """Work that looks at its budget."""
    while True:
        current_budget().check()


def over(*_: object) -> Any:
    """Work whose time is up just then."""
    current_budget().abandon()
    current_budget().check()


def stuck(*_: object) -> Any:
    """Work that does not."""
    threading.Event().wait(60)


def wrapped(*_: object) -> Any:
    try:
        stuck()
    except Exception as error:
        raise RuntimeError("a library's own words") from error


def swallowed(*_: object) -> Answer:
    with suppress(Exception):
        stuck()
    return Answer(
        "app-1", Direction.BACKWARD, (), (), True, (), (), (), changed=False, complete=True
    )


@pytest.mark.parametrize("work", [late, stuck, wrapped, swallowed])
@pytest.mark.parametrize("command", ["back", "forward"])
@pytest.mark.usefixtures("here")
def test_a_command_ends_with_its_time(
    command: str, work: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "GRACE_S", 0.0)
    monkeypatch.setattr(StoredAccess, "ask", work)
    before = signal.getsignal(signal.SIGALRM)
    result = lineage(command, "out/part-00000:2", "--timeout", "0.05", "--json")
    assert result.exit_code == 124, result.output
    assert "the answer takes more than 0.05 s: allow more (--timeout)" in result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["error"]["type"] == "TimeUpError"
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_export_without_time_leaves_no_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(_traced: object, _name: str, stream: IO[bytes], _options: object) -> None:
        stream.write(b"role,node")
        over()

    monkeypatch.setattr(exports, "exported", begun)
    (here / "rows.csv").write_text("of before")
    names = set(here.iterdir())
    to_file = lineage("export", "out/part-00000:2", "-o", "rows.csv", "--timeout", "600")
    assert to_file.exit_code == 124
    assert "not whole" not in to_file.stderr
    assert (here / "rows.csv").read_text() == "of before"
    assert set(here.iterdir()) == names
    to_stdout = lineage("export", "out/part-00000:2", "--timeout", "600")
    assert to_stdout.exit_code == 124
    assert "what was written before the time was up is not whole" in to_stdout.stderr


@pytest.mark.usefixtures("here")
def test_a_dump_without_time_says_that_it_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def dump(*_: object) -> Iterator[str]:
        yield "{}"
        current_budget().abandon()
        yield "{}"

    monkeypatch.setattr(StoredAccess, "dump", dump)
    result = lineage("dump", "--timeout", "600")
    assert result.stdout == "{}\n"
    assert result.exit_code == 124
    assert "what was written before the time was up is not whole" in result.stderr


@pytest.mark.usefixtures("here")
def test_traces_are_compared_and_inputs_ranked() -> None:
    found = json.loads(lineage("diff", "out/part-00000:1", "out/part-00000:2", "--json").stdout)
    back = [
        {item["location"] for group in answer["sources"] for item in group["items"]}
        for place in ("out/part-00000:1", "out/part-00000:2")
        for answer in [json.loads(lineage("back", place, "--json").stdout)]
    ]
    (group,) = found["groups"]
    assert {item["location"] for item in group["only_left"]["items"]} == back[0] - back[1]
    assert {item["location"] for item in group["only_right"]["items"]} == back[1] - back[0]
    assert group["both"] == len(back[0] & back[1])
    assert (found["exact"], found["complete"], found["left"]["count"]) == (True, True, len(back[0]))
    ranked = json.loads(
        lineage(
            "suspects", "--bad", "out/part-00000:1", "--bad", "out/part-00000:2", "--json"
        ).stdout
    )
    assert {one["location"]: one["outputs"] for one in ranked["items"]} == {
        place: (place in back[0]) + (place in back[1]) for place in back[0] | back[1]
    }
    assert [one["outputs"] for one in ranked["items"]] == sorted(
        (one["outputs"] for one in ranked["items"]), reverse=True
    )
    shown = lineage("diff", "out/part-00000:1", "out/part-00000:2")
    assert "only out/part-00000:2" in shown.stdout
    assert "both: " in shown.stdout
    assert "in.txt:" in lineage("suspects", "--bad", "out/part-00000:1", "--limit", "1").stdout


def test_traces_of_different_applications_are_not_compared(here: Path) -> None:
    store_run("sqlite:///.lineage/lineage.db", here, "app-2", started_at=2000.0)
    with open_access("sqlite:///.lineage/lineage.db") as access:
        left, right = (
            TraceQuery(Direction.BACKWARD, ("write#0#0",), app=app) for app in ("app-1", "app-2")
        )
        with pytest.raises(TraceError, match="rows of one application are compared"):
            access.compare(left, right)


@pytest.mark.usefixtures("here")
def test_a_command_with_time_enough_answers_as_without() -> None:
    for arguments in (("back", "out/part-00000:2"), ("export", "out/part-00000:2"), ("dump",)):
        plain, timed = lineage(*arguments), lineage(*arguments, "--timeout", "600")
        assert (
            (plain.exit_code, plain.stdout) == (timed.exit_code, timed.stdout) == (0, plain.stdout)
        )


def test_who_has_no_time_is_not_told_of_fewer_applications(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application for which there was no time is no application that could not be asked."""
    store_run("sqlite:///.lineage/lineage.db", here, "app-2", started_at=2000.0)
    part, asked = QueryEngine._trace_part, list[str]()

    def once(engine: QueryEngine, one: ApplicationQuery, **options: Any) -> Trace:
        asked.append(one.query.app or "")
        return part(engine, one, **options) if len(asked) == 1 else over()

    monkeypatch.setattr(QueryEngine, "_trace_part", once)
    result = lineage("forward", "in.txt:1", "--timeout", "600")
    assert len(asked) == 2
    assert result.exit_code == 124, result.output


def test_the_store_that_is_typed_comes_before_the_one_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE", f"sqlite:///{tmp_path}/environment.db")
    typed = f"sqlite:///{tmp_path}/typed.db"
    for words, name in (
        (("apps",), "environment.db"),
        (("--store", typed, "apps"), "typed.db"),
        (("apps", "--store", typed), "typed.db"),
        (("--store", f"sqlite:///{tmp_path}/before.db", "apps", "--store", typed), "typed.db"),
    ):
        refused = CliRunner().invoke(app, words)
        assert (refused.exit_code, f"{tmp_path}/{name}" in refused.stderr) == (2, True), words
