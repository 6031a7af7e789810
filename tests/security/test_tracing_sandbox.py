"""The Spark that traces reads below its roots alone, and has neither network nor secrets."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from lineage_core.recipe.document import File, Source
from lineage_dataframes.errors import NoSparkError, NotComputedError
from lineage_dataframes.sandbox import kernel, starting
from lineage_dataframes.sandbox.names import NETWORK, ROOTS, SANDBOX
from lineage_dataframes.sandbox.policy import (
    Policy,
    SandboxSettings,
    default_roots,
    program_folders,
    system_files,
)
from tests.security.confined_program import LARGE
from tests.support import jvm
from tests.support.api_server import word_count_served

pytestmark = pytest.mark.security

ROOT = Path(__file__).resolve().parents[2]
SECRET = "lm-secret-of-the-environment"
OF_THE_SECRET = [
    "environment",
    "environment_of_parent",
    "worker_environment",
    "worker_environment_of_parent",
]
"""Attacks that look for the secret of the environment."""
REFUSED = {
    "chroot": (161, errno.ENOENT),
    "io_uring_setup": (425, errno.EFAULT),
    "kcmp": (312, errno.ESRCH),
    "keyctl": (250, errno.EOPNOTSUPP),
}
"""Calls, and what this kernel says to their arguments, which are of no use, where it does not refuse the call itself."""


@dataclass(frozen=True)
class Attacked:
    """What attacks did. ``inside``: the rows of a file that may be read; ``changed``: what is other than it was outside."""

    told: dict[str, Any]
    inside: list[str]
    changed: list[str]


def attacked(folder: Path, home: Path, more: dict[str, str]) -> Attacked:
    """Let `confined_program` attack files and servers of this test."""
    outside, inside = folder / "outside", folder / "inside"
    for one in (outside, inside, home / ".hidden"):
        one.mkdir(parents=True)
    for name in ("secret", "deleted", "truncated"):
        (outside / name).write_text("of somebody else")
        (outside / name).chmod(0o600)
    (inside / "rows.txt").write_text("a row")
    (home / ".hidden" / "token").write_text(SECRET)
    shutil.copy("/bin/true", outside / "program")
    library = next(Path("/usr/lib").rglob("libz.so.1"), None) or next(
        Path("/lib").rglob("libc.so.6")
    )
    shutil.copy(library, outside / "library.so")
    with ExitStack() as stack:

        def listens(family: int, kind: int, address: Any) -> socket.socket:
            one = stack.enter_context(socket.socket(family, kind))
            one.bind(address)
            if kind == socket.SOCK_STREAM:
                one.listen(64)
            return one

        # Paths of sockets are short.
        short = Path(stack.enter_context(_short_folder()))
        abstract = f"lm-{os.getpid()}"
        listens(socket.AF_UNIX, socket.SOCK_STREAM, str(short / "s"))
        listens(socket.AF_UNIX, socket.SOCK_DGRAM, str(short / "d"))
        listens(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract)
        tcp = listens(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = listens(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        targets = {
            "secret": SECRET, "outside": str(outside / "secret"), "hidden": str(home / ".hidden" / "token"),
            "deleted": str(outside / "deleted"), "truncated": str(outside / "truncated"), "root": str(inside),
            "inside": str(inside / "rows.txt"), "program": str(outside / "program"),
            "library": str(outside / "library.so"), "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1],
            "unix": str(short / "s"), "datagrams": str(short / "d"), "abstract": abstract,
            "victim": stack.enter_context(_waiting()).pid,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.security.confined_program", json.dumps(targets)],
            cwd=ROOT,
            env={**os.environ, **jvm.quick(), "LM_SECRET": SECRET, "HOME": str(home), **more},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    changed = sorted(one.name for one in outside.iterdir())
    status = (outside / "secret").stat()
    changed += [oct(stat.S_IMODE(status.st_mode)), str((outside / "truncated").stat().st_size)]
    return Attacked(told, told["inside"], changed)


@contextmanager
def _waiting() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing, and is there until the end."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as one:
        yield one


def _short_folder() -> Any:
    return tempfile.TemporaryDirectory(prefix="lm-", dir="/tmp")


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    """What attacks did where roots are named."""
    folder = tmp_path_factory.mktemp("confined")
    return attacked(
        folder,
        folder / "home",
        {"LINEAGE_TRACING_SANDBOX": "required", "LINEAGE_TRACING_ROOTS": str(folder / "inside")},
    )


def test_nothing_that_is_tried_from_within_reaches_outside(confined: Attacked) -> None:
    assert set(OF_THE_SECRET) <= set(confined.told["tried"])
    assert confined.told["done"] == []
    assert confined.told["lacks"] == []
    assert confined.changed == [
        "deleted", "library.so", "program", "secret", "truncated", "0o600", "16",
    ]  # fmt: skip


def test_nothing_is_written_where_spark_could_put_a_link(confined: Attacked) -> None:
    assert confined.told["exposed"] == []


def test_what_lies_below_a_root_is_read(confined: Attacked) -> None:
    assert confined.inside == ["a row"]


def test_rows_of_any_size_come_out(confined: Attacked) -> None:
    assert confined.told["large"] == LARGE


@pytest.mark.long
def test_the_same_attacks_succeed_where_nothing_is_confined(tmp_path: Path) -> None:
    """So they would show it if the sandbox held nothing."""
    open_ = attacked(tmp_path, tmp_path / "home", {"LINEAGE_TRACING_SANDBOX": "off"})
    assert open_.told["done"] == open_.told["tried"]
    assert not open_.told["confined"]
    assert open_.inside == ["a row"]


@pytest.fixture(scope="module", params=["required", pytest.param("off", marks=pytest.mark.long)])
def functions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any]]:
    """How functions' values depend on what a sandbox withholds, in one or without."""
    tmp_path = tmp_path_factory.mktemp("functions")
    inside, home = tmp_path / "inside", tmp_path / "home"
    for one in (inside / "tables", home / ".hidden"):
        one.mkdir(parents=True)
    (inside / "allowed").write_text("read")
    hidden = home / ".hidden" / "rates"
    hidden.write_text("outside")
    with zipfile.ZipFile(tmp_path / "some.jar", "w") as jar:
        jar.writestr("some.txt", "as tables of Delta Lake have theirs")
    more = {
        SANDBOX: request.param, ROOTS: str(inside), "HOME": str(home), "LM_RATE": "outside",
        "LINEAGE_FUNCTIONS_KEY": "a key of the tests for functions",
        "PYSPARK_SUBMIT_ARGS": f"--jars {tmp_path / 'some.jar'} pyspark-shell",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.confined_functions", str(inside), str(hidden)],
        cwd=ROOT,
        env={**os.environ, **jvm.quick(), **more},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
def test_a_function_whose_value_may_be_another_ends_the_trace_and_says_why(
    functions: tuple[str, dict[str, Any]],
) -> None:
    mode, told = functions[0], dict(functions[1])
    assert told.pop("plain") == told.pop("leaves_behind") == 5
    told.pop("finds_what_was_left")
    if mode == "off":
        assert set(told.values()) == {5}
        return
    wanted = {
        "by_variable": "the variable LM_RATE",
        "by_any_error": "the variable LM_RATE",
        "by_file": ".hidden/rates",
        "by_folder": ".hidden",
        "by_network": "the network",
        "by_listening": "the network",
        "by_program": "another process",
        "by_all_variables": "all variables",
        "by_bytes": "the variable LM_RATE",
    }
    assert set(told) == set(wanted)
    for name, what in wanted.items():
        assert told[name].startswith("NotComputedError: "), name
        assert "a Python function asks for " in told[name], name
        assert what in told[name], name
        assert f"{SANDBOX}=off" in told[name]


def test_a_function_changes_nothing_for_one_of_another_application(
    functions: tuple[str, dict[str, Any]],
) -> None:
    """Of modules, of the environment and, where it is confined, of files."""
    _, told = functions
    assert (told["leaves_behind"], told["finds_what_was_left"]) == (5, 5)


@dataclass(frozen=True)
class Running:
    """A Spark that is confined, as `starting.active_sandbox` has it."""

    wanted: SandboxSettings
    policy: Policy


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A confined Spark that may read ``inside`` and has no network."""
    wanted = SandboxSettings.of({SANDBOX: "auto", ROOTS: str(tmp_path / "inside")}, None)
    policy = Policy(6, True, False, (str(tmp_path / "inside"),), (), (), (), (), (), {})
    monkeypatch.setattr(starting, "active_sandbox", lambda: Running(wanted, policy))


def source(path: str, kind: str = "csv", **options: str) -> Source:
    files = () if kind in {"delta", "iceberg", "jdbc"} else (File(path, 1, 1),)
    return Source(kind, (path,), "", options=options, files=files)


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    ("path", "kind", "setting"),
    [
        ("s3a://bucket/a.csv", "csv", NETWORK), ("hdfs://there/a.parquet", "parquet", NETWORK),
        ("s3a://bucket/table", "delta", NETWORK), ("s3a://bucket/table", "iceberg", NETWORK),
        ("jdbc", "jdbc", NETWORK), ("file:/elsewhere/a.csv", "csv", ROOTS), ("file:/elsewhere/table", "delta", ROOTS),
    ],
)  # fmt: skip
def test_what_is_out_of_reach_is_refused_by_the_name_of_the_setting(
    path: str, kind: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_JDBC_URL", "jdbc:oracle:thin:@there:1521:shop")
    with pytest.raises(NotComputedError, match=setting):
        starting.check_reach([source(path, kind)])


@pytest.mark.usefixtures("running")
def test_metadata_of_a_table_is_looked_at_as_its_files_are(tmp_path: Path) -> None:
    inside = f"file:{tmp_path}/inside"
    starting.check_reach([source(f"{inside}/t", "iceberg", metadata=f"{inside}/t/m.json")])
    with pytest.raises(NotComputedError, match=ROOTS):
        starting.check_reach([source(f"{inside}/t", "iceberg", metadata="file:/elsewhere/m.json")])


@pytest.mark.usefixtures("running")
def test_what_spark_is_refused_names_the_settings() -> None:
    refused = OSError("java.io.FileNotFoundException: /a (Permission denied)")
    for setting in (SANDBOX, NETWORK, ROOTS):
        assert setting in starting.explain_problem(refused, "it can't be read")
    assert starting.explain_problem(OSError("no such column"), "no such column") == "no such column"


def test_what_is_required_and_can_not_be_held_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SANDBOX, "required")
    monkeypatch.setattr(kernel, "landlock_abi", lambda: 0)
    monkeypatch.setattr(starting, "active_sandbox", lambda: None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with pytest.raises(NoSparkError, match="no Landlock"):
        starting.prepare_sandbox("local[1]", None)
    with pytest.raises(NoSparkError, match="elsewhere"):
        starting.prepare_sandbox("spark://there:7077", None)
    with pytest.raises(NoSparkError, match="has a Spark already"):
        starting.check_active()


@pytest.mark.parametrize("setting", [{SANDBOX: "of"}, {SANDBOX: "auto", NETWORK: "perhaps"}])
def test_a_setting_that_says_nothing_known_is_refused(setting: dict[str, str]) -> None:
    with pytest.raises(NoSparkError, match=list(setting)[-1]):
        SandboxSettings.of(setting, None)


def test_where_nothing_is_set_it_is_confined_as_far_as_it_can() -> None:
    assert (
        SandboxSettings.of({}, None).mode == SandboxSettings.of({SANDBOX: ""}, None).mode == "auto"
    )
    assert not SandboxSettings.of({}, None).network


def test_a_server_says_before_the_first_question_what_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SANDBOX, raising=False)
    monkeypatch.setattr(kernel, "landlock_abi", lambda: 0)
    with word_count_served(tmp_path, spark_master="local[1]") as client:
        ready = client.get("/readyz")
        assert ready.status_code == 200
        assert "no Landlock" in ready.json()["problems"]["tracing"]
        monkeypatch.setenv(SANDBOX, "off")
        assert client.get("/readyz").json() == {"ready": True, "problems": {}}


def test_where_no_program_runs_from_temporary_files_it_starts_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_CACHE", str(tmp_path / "cache"))
    for flags, where in ((0, None), (os.ST_NOEXEC, str(tmp_path / "cache" / "java"))):
        monkeypatch.setattr(os, "statvfs", lambda _, f=flags: SimpleNamespace(f_flag=f))
        assert starting._program_folder() == where


def test_a_java_that_is_found_on_the_path_alone_may_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / ".own" / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java.parent))
    assert os.path.realpath(java.parents[1]) in program_folders()


def test_modules_of_the_user_are_read_and_the_folder_of_the_program_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers import what the asking Python could; where a program lies, its secrets may, too."""
    packages, program = str(tmp_path / ".local" / "packages"), str(tmp_path / "program")
    monkeypatch.setattr(sys, "path", [program, packages, os.path.realpath(Path.home())])
    read = system_files()
    assert packages in read
    assert program not in read
    assert os.path.realpath(Path.home()) not in read


def test_roots_of_a_server_are_those_alone_and_what_is_added() -> None:
    auto = {SANDBOX: "auto"}
    assert SandboxSettings.of(auto, None).roots is None
    assert SandboxSettings.of(auto, ()).roots == ()
    assert SandboxSettings.of(
        {**auto, ROOTS: "/more, s3://lake/"}, ("/data/", "s3://lake")
    ).roots == (
        "/data",
        "/more",
    )


def test_where_nobody_names_roots_hidden_files_of_the_home_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".ssh", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    roots = default_roots()
    home = Path(os.path.realpath(tmp_path))
    assert str(home / "work") in roots
    for place in (home / ".ssh", Path("/etc"), Path("/proc"), Path("/run"), Path("/var/lib")):
        assert not any(place.is_relative_to(root) for root in roots), place


def test_a_machine_whose_calls_have_not_been_tried_is_told_to_have_no_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(kernel, "landlock_abi", lambda: 6)
    monkeypatch.setattr(starting, "active_sandbox", lambda: None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv(SANDBOX, "required")
    with pytest.raises(NoSparkError, match="no seccomp"):
        starting.prepare_sandbox("local[1]", None)
    monkeypatch.setenv(SANDBOX, "auto")
    sandbox = starting.prepare_sandbox("local[1]", None)
    assert sandbox is not None
    starting.remove_folder(sandbox.folder)
    assert not sandbox.policy.seccomp
    assert [one for one in sandbox.lacks if "no seccomp" in one]


@pytest.mark.skipif(not kernel.has_seccomp(), reason="needs seccomp on a machine that is known")
def test_nothing_of_a_file_is_changed_that_is_open_to_be_read(tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("a")
    file.chmod(0o600)
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import kernel\n"
        "kernel.restrict_calls(network=True)\n"
        "opened = os.open(sys.argv[2], os.O_RDONLY)\n"
        "os.fchmod(opened, 0o666)\n"
        "for change in (lambda: os.fchown(opened, os.getuid(), os.getgid()), lambda: os.setxattr(opened, 'user.a', b'b'),"
        " lambda: os.removexattr(opened, 'user.a')):\n"
        "    try: change(); sys.exit('it may')\n"
        "    except PermissionError: pass"
    )
    command = [sys.executable, "-I", "-c", code, str(Path(kernel.__file__).parent), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not kernel.has_seccomp(), reason="needs seccomp on a machine that is known")
def test_calls_are_refused_that_the_kernel_would_look_at() -> None:
    code = (
        "import ctypes, json, sys; sys.path.insert(0, sys.argv[1]); import kernel\n"
        "def said(): return [0 if kernel._LIBC.syscall(n, b'/none/there' if n == 161 else 1 if n == 425 else 99999, 0, 0, 0, 0) >= 0"
        " else ctypes.get_errno() for n in json.loads(sys.argv[2])]\n"
        "before = said(); kernel.restrict_calls(network=True); print(json.dumps([before, said()]))"
    )
    numbers = [number for number, _ in REFUSED.values()]
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(Path(kernel.__file__).parent), json.dumps(numbers)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    before, after = json.loads(done.stdout)
    assert before == [code for _, code in REFUSED.values()]
    assert after == [errno.EPERM] * len(REFUSED)


WORKER_THAT_LISTENS = """
import json, os, socket, subprocess, sys, threading
from lineage_dataframes.sandbox import daemon, withheld
os.environ[withheld.NAMES] = "LM_RATE"
before = socket.create_server(("127.0.0.1", 0))
withheld.watch_environment()
daemon.confine_workers(sys.argv[1])
after = socket.create_server(("127.0.0.1", 0))
reading, writing = os.pipe()
if not os.fork():
    told = {}
    def attack(name, call):
        try:
            call()
            told[name] = "it may"
        except BaseException as problem:
            told[name] = type(problem).__name__
    before.setblocking(False)
    import _socket
    raw = _socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    attack("bind", lambda: raw.bind(("0.0.0.0", 0)))
    attack("listen", lambda: raw.listen(1))
    attack("accept", before.accept)
    attack("listen again", before.listen)
    from ctypes import CDLL, get_errno
    libc = CDLL(None, use_errno=True)
    for call in (43, 49, 50, 288):
        told[call] = [libc.syscall(call, before.fileno(), None, None, 0), get_errno()]
    attack("process", lambda: subprocess.run(["/bin/true"]))
    attack("system", lambda: os.system("true"))
    attack("fork", os.fork)
    attack("bytes", lambda: os.environb[b"LM_RATE"])
    attack("all", lambda: dict(os.environ.items()))
    attack("none", lambda: os.environ.get("LM_NONE"))
    for call in (57, 58):
        told[call] = [libc.syscall(call), get_errno()]
    told["libc"] = [libc.fork(), get_errno()]
    thread = threading.Thread(target=told.update, args=({"thread": "ran"},))
    thread.start()
    thread.join()
    os.write(writing, json.dumps(told).encode())
    os._exit(0)
os.wait()
after.settimeout(30)
# Another process, as Spark is one.
host, port = after.getsockname()
connecting = subprocess.Popen(["/bin/bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}"])
after.accept()
connecting.wait()
print(os.read(reading, 10_000).decode())
"""


@pytest.mark.skipif(not kernel.has_seccomp(), reason="needs seccomp on a machine that is known")
def test_a_worker_waits_for_no_connection_and_starts_no_process_and_its_daemon_does(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER_THAT_LISTENS, str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("bind") == "WithheldError"
    assert {told.pop(name) for name in ("listen", "accept", "listen again")} == {"PermissionError"}
    assert (told.pop("thread"), told.pop("none")) == ("ran", "it may")
    withheld_ = {told.pop(name) for name in ("process", "system", "fork", "bytes", "all")}
    assert withheld_ == {"WithheldError"}
    assert [told.pop(call) for call in ("57", "58", "libc")] == [[-1, errno.EPERM]] * 3
    assert set(told) == {"43", "49", "50", "288"}
    assert all(said == [-1, errno.EACCES] for said in told.values()), told


WORKERS_ONE_AFTER_ANOTHER = """
import json, os, sys, tempfile
from pathlib import Path
from lineage_dataframes.sandbox import daemon
folder = Path(sys.argv[1])
daemon.confine_workers(str(folder))

def forked(work):
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, json.dumps(work()).encode())
        os._exit(0)
    os.close(writing)
    told = json.loads(os.read(reading, 10_000))
    os.wait()
    return told

def leave():
    (Path(tempfile.gettempdir()) / "left").write_text("left")
    return tempfile.gettempdir()

def bury():
    for _ in range(2_000):
        os.mkdir(f"{tempfile.gettempdir()}/in")
        os.chdir(f"{tempfile.gettempdir()}/in")
        tempfile.tempdir = "."
    return 0

def look():
    try:
        (folder / living / "more").write_text("more")
        wrote = True
    except OSError:
        wrote = False
    return [os.listdir(tempfile.gettempdir()), wrote]

living = f"{os.getpid()}-living"
(folder / living).mkdir()
(folder / living / "kept").write_text("kept")
own = forked(leave)
forked(bury)
told = {"own": own, "looked": forked(look), "gone": not os.path.exists(own), "kept": os.listdir(folder / living)}
told["again"] = forked(look)[0]
print(json.dumps(told))
"""


@pytest.mark.skipif(not kernel.landlock_abi(), reason="needs Landlock")
def test_folders_of_workers_that_ended_are_removed_and_no_others() -> None:
    """Also after one that is deeper than Python goes down."""
    # Not below pytest's own, which Python removes.
    folder = tempfile.mkdtemp(prefix="lm-workers-")
    try:
        done = subprocess.run(
            [sys.executable, "-c", WORKERS_ONE_AFTER_ANOTHER, folder],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        subprocess.run(["/bin/rm", "-rf", folder], check=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert str(Path(told.pop("own")).parent) == folder
    assert told == {"looked": [[], False], "gone": True, "kept": ["kept"], "again": []}
