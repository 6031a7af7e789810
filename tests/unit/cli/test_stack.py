import hashlib
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from lineage.stack import assembly, downloads, programs, running, state, supervisor
from lineage.stack.errors import DownloadError, MissingProgramError, StackError, StackFolderError
from lineage.stack.server import NotReady, Server, silent
from lineage.stack.services import KINDS
from lineage.stack.state import StackOptions, StackState
from lineage_kafka.topics import Topics

PORTS = {use: 20_000 + number for number, use in enumerate(assembly.PORT_USES)}

pytestmark = pytest.mark.unit


class Nothing(Server):
    def prepare(self, say: Any = silent) -> None:
        raise AssertionError

    def command(self) -> list[str]:
        raise AssertionError

    def check(self) -> None:
        raise NotReady


def server(name: str, *needs: str) -> Server:
    return Nothing(name, Path(name), 1, frozenset(needs))


# --- state


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert state.load(tmp_path) is None
    written = StackState(servers=frozenset({"kafka"}), ports=PORTS)
    state.save(tmp_path, written)
    assert state.load(tmp_path) == written
    state.forget(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", '{"version": 2}', '{"ports": {"kafka": "x"}}'])
def test_state_that_is_none_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(text)
    with pytest.raises(StackFolderError, match=r"stack\.json is not the state of a stack"):
        state.load(tmp_path)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(StackFolderError, match="--dir"):
        running.up(tmp_path, [], {}, silent)
    with pytest.raises(StackFolderError, match="lineage stack up"):
        running.down(tmp_path, [], purge=True, say=silent)
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]


def test_one_command_at_a_time(tmp_path: Path) -> None:
    said: list[str] = []
    order: list[str] = []
    told = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        told.set()

    def second() -> None:
        with state.locked(tmp_path, say):
            order.append("second")

    with state.locked(tmp_path, silent):
        thread = threading.Thread(target=second)
        thread.start()
        assert told.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"neo4j_heap": "lots"}, "neo4j_heap 'lots'"),
        ({"redis_memory": "0m"}, "redis_memory '0m'"),
        ({"partitions": 0}, "partitions 0"),
    ],
)
def test_options_that_can_not_be_are_refused(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StackError, match=said):
        running.up(tmp_path / "stack", [], options, silent)
    assert state.load(tmp_path / "stack") is None


def test_partitions_of_topics_that_exist_stay(tmp_path: Path) -> None:
    state.save(tmp_path, StackState(ports=PORTS, options=StackOptions(partitions=2)))
    with pytest.raises(StackError, match=r"have 2 partitions.*--purge"):
        running.up(tmp_path, [], {"partitions": 3}, silent)


# --- assembly


def test_each_server_gets_what_it_needs(tmp_path: Path) -> None:
    names = ["kafka", "redis", "neo4j", *(kind.name for kind in KINDS)]
    made = assembly.servers_of(tmp_path, StackState(ports=PORTS), names)
    assert [one.name for one in made] == names
    assert {use: port for one in made for use, port in one.ports.items()} == PORTS
    assert {one.folder for one in made} == {tmp_path / name for name in names}
    settings = assembly.settings_of(tmp_path, made)
    assert settings == {
        "LINEAGE_DISPATCHER": "kafka",
        "LINEAGE_KAFKA": "127.0.0.1:20000",
        "LINEAGE_REDIS": "redis://127.0.0.1:20002/0",
        "LINEAGE_STORE": "neo4j://127.0.0.1:20003",
        "LINEAGE_NEO4J_USER": "neo4j",
        "LINEAGE_NEO4J_PASSWORD_FILE": str(tmp_path / "neo4j" / "password"),
        "LINEAGE_SPOOL": str(tmp_path / "spool"),
    }
    by_name = {one.name: one for one in made}
    linker, writer = by_name["linker"].environment(), by_name["writer"].environment()
    assert linker["LINEAGE_REDIS"] == settings["LINEAGE_REDIS"]
    assert "LINEAGE_STORE" not in linker
    assert writer["LINEAGE_STORE"] == settings["LINEAGE_STORE"]
    assert linker["LINEAGE_KAFKA"] == writer["LINEAGE_KAFKA"] == settings["LINEAGE_KAFKA"]
    api = by_name["query-api"]
    assert api.address == f"http://127.0.0.1:{PORTS['query-api']}"
    told = api.environment()
    assert told["LINEAGE_STORE"] == settings["LINEAGE_STORE"]
    assert told["LINEAGE_API_PORT"] == str(PORTS["query-api"])


def test_the_api_is_for_this_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (api,) = assembly.servers_of(tmp_path, StackState(ports=PORTS), ["query-api"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_API_HOST", "192.0.2.1")
    monkeypatch.delenv("LINEAGE_API_ROOTS", raising=False)
    told = api.environment()
    assert (told["LINEAGE_API_HOST"], told["LINEAGE_API_ROOTS"]) == ("127.0.0.1", str(tmp_path))
    monkeypatch.setenv("LINEAGE_API_ROOTS", "/data,s3://lake/")
    assert api.environment()["LINEAGE_API_ROOTS"] == "/data,s3://lake/"


def test_a_stack_of_an_earlier_version_has_what_it_had(tmp_path: Path) -> None:
    earlier = frozenset({"kafka", "redis", "neo4j", "linker", "writer"})
    ports = {use: port for use, port in PORTS.items() if use != "query-api"}
    state.save(tmp_path, StackState(servers=earlier, ports=ports))
    found = running.required_state(tmp_path)
    made = assembly.servers_of(tmp_path, found, running.chosen(found, []))
    assert {one.name for one in made} == earlier
    assert assembly.settings_of(tmp_path, made)["LINEAGE_KAFKA"] == "127.0.0.1:20000"


def test_kafka_gets_the_topics_of_the_pipeline(tmp_path: Path) -> None:
    options = StackOptions(partitions=7)
    (kafka,) = assembly.servers_of(tmp_path, StackState(ports=PORTS, options=options), ["kafka"])
    topics = Topics()
    assert getattr(kafka, "topics") == {  # noqa: B009 - a Server has no topics, this one has
        topics.flow: 7,
        topics.edge: 7,
        topics.node: 1,
        topics.dead_letter: 1,
    }


def test_what_is_needed_is_started_too_and_first() -> None:
    assert assembly.needed_names(["redis"]) == {"redis"}
    with pytest.raises(StackError, match=r"'postgres'.*kafka, redis, neo4j"):
        assembly.needed_names(["postgres"])
    servers = [server("writer", "kafka", "neo4j"), server("kafka"), server("api", "writer")]
    groups = supervisor.in_order(servers)
    assert [[one.name for one in group] for group in groups] == [["kafka"], ["writer"], ["api"]]
    with pytest.raises(ValueError, match="need each other"):
        supervisor.in_order([server("a", "b"), server("b", "a")])


def test_names_that_are_not_of_the_stack_are_refused() -> None:
    known = StackState(servers=frozenset({"kafka", "redis"}))
    assert running.chosen(known, []) == {"kafka", "redis"}
    assert running.chosen(known, ["redis"]) == {"redis"}
    with pytest.raises(StackError, match=r"'neo4j'.*kafka, redis"):
        running.chosen(known, ["neo4j"])


# --- programs and downloads


def java_home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(mode=0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return folder


def test_a_java_of_a_version_that_fits_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = java_home(tmp_path / "11", "11.0.2"), java_home(tmp_path / "21", "21")
    monkeypatch.setattr(programs, "_java_homes", lambda: [old, new])
    assert programs.java() == new / "bin" / "java"
    monkeypatch.setattr(programs, "_java_homes", lambda: [old, tmp_path])
    with pytest.raises(MissingProgramError, match="apt install openjdk-17-jre-headless"):
        programs.java()


@pytest.mark.parametrize(
    ("program", "package"), [("maven", "maven"), ("redis_server", "redis-server")]
)
def test_a_missing_program_names_its_package(
    program: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingProgramError, match=f"apt install {package} "):
        getattr(programs, program)()


class Maven:
    """A program in place of mvn."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache = folder / "cache"
        self.calls = folder / "calls"
        self._program = folder / "bin" / "mvn"
        self._program.parent.mkdir()
        monkeypatch.setenv("LINEAGE_CACHE", str(self.cache))
        monkeypatch.setattr(downloads, "maven", lambda: self._program)
        monkeypatch.setattr(downloads, "java", lambda: folder / "jdk" / "bin" / "java")

    def does(self, *lines: str) -> None:
        self._program.write_text(
            "\n".join(
                [
                    "#!/bin/sh -e",
                    f'echo called >> "{self.calls}"',
                    "for word; do case $word in -DoutputDirectory=*) lib=${word#*=};; esac; done",
                    *lines,
                ]
            )
        )
        self._program.chmod(self._program.stat().st_mode | stat.S_IXUSR)

    def count(self) -> int:
        return len(self.calls.read_text().splitlines())


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maven:
    return Maven(tmp_path, monkeypatch)


def test_jars_are_fetched_once_by_whoever_is_first(maven: Maven) -> None:
    maven.does('mkdir "$lib"', 'echo jar > "$lib/kafka.jar"')
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(downloads.jars("kafka"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    digest = hashlib.sha256(downloads.pom_file("kafka").read_bytes()).hexdigest()[:12]
    assert found == [maven.cache / f"kafka-{digest}"] * 4
    assert [jar.name for jar in found[0].iterdir()] == ["kafka.jar"]
    assert maven.count() == 1
    assert {file.name for file in maven.cache.iterdir()} == {f"kafka-{digest}", "kafka.lock"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['mkdir "$lib"', 'touch "$lib/a.jar"', "echo '[ERROR] no route'", "exit 1"], "no route"),
        (["echo nothing to do"], "nothing to do"),
    ],
)
def test_a_failed_download_leaves_nothing(maven: Maven, lines: list[str], said: str) -> None:
    maven.does(*lines)
    with pytest.raises(DownloadError, match=said):
        downloads.jars("neo4j")
    assert [file.name for file in maven.cache.iterdir()] == ["neo4j.lock"]
    maven.does('mkdir "$lib"', 'touch "$lib/a.jar"')
    assert [jar.name for jar in downloads.jars("neo4j").iterdir()] == ["a.jar"]
