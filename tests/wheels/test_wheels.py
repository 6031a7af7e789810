"""The wheel that users install, in clean environments: nothing of the checkout is on any path."""

import json
import re
import signal
import subprocess
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wheels import JOB, Installed

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TELLING = """
import lineage
with lineage.LineageApi("totals", store="sqlite:///told.db") as api:
    api.register("read", "orders.csv", kind="source")
    api.register("total", "totals", kind="sink")
    api.link("read", "total")
    with api.task("total", partition=0):
        api.capture("f1", "read#0#6", "total#0#1")
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("core"), "")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("whole"), "[all]")


def test_it_is_one_wheel_of_python_alone_and_holds_the_page() -> None:
    (wheel,) = (ROOT / "build" / "wheels").glob("*")
    assert wheel.name == f"lineage_master-{PROJECT['version']}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert "lineage_query_api/web/static/index.html" in names
    assert [name for name in names if name.endswith((".jar", ".so"))] == []
    members = {path.parent.name for path in ROOT.glob("*/*/src/*/__init__.py")} | {"lineage"}
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == members


def test_the_core_answers_without_spark_or_a_server(core: Installed) -> None:
    assert core.run("lineage", "--version").stdout == f"lineage {PROJECT['version']}\n"
    told = core.run("python", "-c", TELLING)
    assert told.returncode == 0, told.stderr
    done = core.run("lineage", "back", "total#0#1", "--store", "sqlite:///told.db", "--json")
    assert done.returncode == 0, done.stderr
    assert [one["address"] for one in json.loads(done.stdout)["sources"][0]["items"]] == [
        "read#0#6"
    ]
    for words in (("apps",), ("graph",), ("verify",), ("--help",)):
        done = core.run("lineage", "--store", "sqlite:///told.db", *words)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("program", "words", "extra"),
    [
        ("lineage", ("run", "job.py"), "spark"),
        ("lineage", ("ui", "--no-browser"), "server"),
        ("lineage", ("dlq", "list"), "kafka"),
        ("lineage", ("apps", "--store", "bolt://127.0.0.1:9"), "neo4j"),
        ("python", ("-c", "from lineage import LineageContext"), "spark"),
        ("lineage-query-api", (), "server"),
        ("lineage-linker", (), "pipeline"),
        ("lineage-writer", (), "pipeline"),
    ],
)
def test_what_is_missing_is_named_with_its_extra(
    core: Installed, program: str, words: tuple[str, ...], extra: str
) -> None:
    done = core.run(program, *words)
    assert done.returncode == (1 if program == "python" else 2), done.stderr
    assert f"the extra [{extra}] of lineage-master brings it" in done.stderr
    assert program == "python" or "Traceback" not in done.stderr


def test_a_job_is_run_and_a_row_traced(whole: Installed) -> None:
    (whole.home / "job.py").write_text(JOB, encoding="utf-8")
    (whole.home / "in.txt").write_text("a1\nb2\na3\n", encoding="utf-8")
    ran = whole.run("lineage", "run", "job.py", "in.txt", "out")
    assert ran.returncode == 0, ran.stderr
    assert "complete, answerable" in ran.stderr
    rows = (whole.home / "out" / "part-00000").read_text(encoding="utf-8").splitlines()
    row = rows.index("('a', 4)") + 1
    back = whole.run("lineage", "back", f"out/part-00000:{row}", "--json")
    assert back.returncode == 0, back.stderr
    (group,) = json.loads(back.stdout)["sources"]
    assert [item["location"] for item in group["items"]] == ["in.txt:1", "in.txt:3"]


@pytest.fixture
def served(whole: Installed) -> Iterator[str]:
    whole.run("python", "-c", TELLING)
    ui = subprocess.Popen(
        [whole.bin / "lineage", "ui", "--no-browser", "--port", "0", "--store", "sqlite:///told.db"],
        cwd=whole.home,
        env=whole.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        assert ui.stdout is not None
        said = next((line for line in iter(ui.stdout.readline, "") if "http://" in line), "")
        found = re.search(r"http://\S+", said)
        assert found is not None, ui.communicate(timeout=60)
        yield found[0]
    finally:
        ui.send_signal(signal.SIGINT)
        ui.communicate(timeout=60)


def test_the_page_is_served(served: str) -> None:
    with urllib.request.urlopen(served, timeout=60) as answer:
        assert b"<title>" in answer.read()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("lineage-query-api", "query_api_failed"),
        ("lineage-linker", "linker_failed"),
        ("lineage-writer", "writer_failed"),
    ],
)
def test_services_start_as_far_as_their_settings_go(
    whole: Installed, program: str, said: str
) -> None:
    whole.environment["LINEAGE_STORE"] = "none://of-these"
    try:
        done = whole.run(program)
    finally:
        del whole.environment["LINEAGE_STORE"]
    assert done.returncode == 2, done.stderr
    assert said in done.stdout + done.stderr
