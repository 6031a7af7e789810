"""Attacks from within the Spark that traces: from its Java, and from its Python workers. Prints, as JSON, which succeed.

    python -m tests.security.confined_program TARGETS

TARGETS: JSON, what is attacked (`tests/security/test_tracing_sandbox.py` makes it).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_dataframes.sandbox.starting import given_folder, missing_restrictions, written_folder
from lineage_dataframes.spark.own_spark import start_spark
from lineage_dataframes.trace.rows import texts_at

LARGE = 3_000_000
"""Characters of a row, more than what Spark sends with the word that a task has ended."""

TEXT_SCHEMA = (
    '{"type":"struct","fields":[{"name":"value","type":"string","nullable":true,"metadata":{}}]}'
)
Targets = dict[str, Any]


def succeeds(attack: Callable[[], object]) -> bool:
    """Whether an attack runs to its end."""
    try:
        attack()
    except Exception:
        return False
    return True


def from_java(spark: SparkSession, to: Targets) -> dict[str, Callable[[], object]]:
    """Attacks of code that runs in Java."""
    session: Any = spark
    jvm, gateway = session._jvm, session.sparkContext._gateway
    files, nio = jvm.java.nio.file.Files, jvm.java.nio.file

    def place(path: str) -> Any:
        return nio.Paths.get(path, gateway.new_array(jvm.String, 0))

    def secret(held: bytes) -> None:
        assert to["secret"].encode() in held

    def run(*words: str) -> None:
        array = gateway.new_array(jvm.String, len(words))
        for n, word in enumerate(words):
            array[n] = word
        started = jvm.Runtime.getRuntime().exec(array)
        assert started.waitFor() == 0

    def link() -> None:
        made = f"{to['scratch'] or to['root']}/link"
        files.createSymbolicLink(
            place(made), place(to["outside"]), gateway.new_array(nio.attribute.FileAttribute, 0)
        )
        files.readAllBytes(place(made))

    def link_in_given() -> None:
        files.createSymbolicLink(
            place(f"{to['given'] or to['root']}/java"),
            place(to["outside"]),
            gateway.new_array(nio.attribute.FileAttribute, 0),
        )

    def unix() -> None:
        address = jvm.java.net.UnixDomainSocketAddress.of(to["unix"])
        jvm.java.nio.channels.SocketChannel.open(address).close()

    def datagram() -> None:
        jvm.java.net.DatagramSocket()

    written = place(to["outside"] + ".java")
    none = gateway.new_array(nio.OpenOption, 0)
    return {
        "read": lambda: files.readAllBytes(place(to["outside"])),
        "read_hidden": lambda: files.readAllBytes(place(to["hidden"])),
        "read_by_link": link,
        "link_in_given": link_in_given,
        "list": lambda: jvm.java.io.File(str(Path(to["outside"]).parent)).list().__len__(),
        "write": lambda: files.write(written, b"x", none),
        "delete": lambda: files.delete(place(to["deleted"])),
        "environment": lambda: secret(jvm.System.getenv("LM_SECRET").encode()),
        "environment_of_parent": lambda: secret(
            files.readAllBytes(place(f"/proc/{to['pid']}/environ"))
        ),
        "memory_of_parent": lambda: jvm.java.io.RandomAccessFile(f"/proc/{to['pid']}/mem", "r"),
        "tcp": lambda: jvm.java.net.Socket("127.0.0.1", to["tcp"]),
        "unix": unix,
        "udp": datagram,
        "load": lambda: jvm.System.load(to["library"]),
        "run": lambda: run(to["program"]),
        "signal": lambda: run("/bin/sh", "-c", f"kill -0 {to['pid']}"),
    }


def from_spark(spark: SparkSession, to: Targets) -> dict[str, Callable[[], object]]:
    """Attacks by what a recipe could have Spark read, write or load if nothing before looked at it."""
    outside = to["outside"]
    return {
        "spark_text": lambda: spark.read.text(outside).collect(),
        "spark_binary": lambda: spark.read.format("binaryFile").load(outside).collect(),
        "spark_csv": lambda: spark.read.schema("a string").csv(f"file://{outside}").collect(),
        "spark_folder": lambda: spark.read.text(str(Path(outside).parent)).collect(),
        "spark_sql": lambda: spark.sql(f"SELECT * FROM text.`{outside}`").collect(),
        "spark_write": lambda: spark.range(1).write.parquet(outside + ".parquet"),
    }


def in_worker(given: str) -> str:
    """Attacks of a Python function's code; which succeed, as JSON."""
    import ctypes
    import os
    import socket
    import subprocess
    import tempfile
    from contextlib import suppress

    # What watches in Python is for honest functions: code that attacks switches it off. Nothing watches where nothing is confined.
    with suppress(ImportError):
        from lineage_dataframes.sandbox import withheld

        withheld._CONNECTING.clear()
        withheld._LISTING.clear()
        withheld._STARTING.clear()
        withheld._is_of_python = lambda: True
    os.environ.__class__ = os._Environ
    os.environb.__class__ = os._Environ
    to = json.loads(given)
    libc = ctypes.CDLL(None, use_errno=True)

    def opened(path: str, mode: str = "rb") -> bytes:
        with open(path, mode) as file:
            return bytes(file.read(1 << 16)) if "r" in mode else b""

    def holds(text: bytes) -> None:
        if to["secret"].encode() not in text:
            raise ValueError

    def call(number: int, *arguments: int) -> None:
        if libc.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), "refused")

    def connect(family: int, address: Any) -> None:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.settimeout(5)
            one.connect(address)

    def seize() -> None:
        # Whoever is seized goes on; this process's end lets it loose.
        if libc.ptrace(0x4206, to["victim"], None, None) < 0:
            raise OSError

    def fast_open() -> None:
        with socket.socket() as one:
            one.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", to["tcp"]))

    def datagram_to_path() -> None:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        pair[0].sendto(b"x", to["datagrams"])

    def write_beside_java() -> None:
        # What Java loads from there is code: jars, libraries.
        written, own = to["scratch"] or to["root"], os.environ.get("TMPDIR", "")
        for folder, _, _ in list(os.walk(written)):
            if folder != own:
                with suppress(OSError):
                    opened(os.path.join(folder, "beside"), "wb")
                    return
        raise PermissionError

    def sent() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.sendto(b"x", ("127.0.0.1", to["udp"]))

    attacks: dict[str, Callable[[], object]] = {
        "worker_read": lambda: opened(to["outside"]),
        "worker_read_hidden": lambda: opened(to["hidden"]),
        "worker_read_by_root": lambda: opened(f"/proc/{to['pid']}/root{to['outside']}"),
        "worker_link_in_given": lambda: os.symlink(
            to["outside"], f"{to['given'] or to['root']}/worker"
        ),
        "worker_write_beside_java": write_beside_java,
        "worker_write_in_given": lambda: opened(f"{to['given'] or to['root']}/file", "wb"),
        "worker_write": lambda: opened(to["outside"] + ".worker", "wb"),
        "worker_environment": lambda: holds(repr(os.environ).encode()),
        "worker_environment_of_parent": lambda: holds(opened(f"/proc/{to['pid']}/environ")),
        "worker_tcp": lambda: connect(socket.AF_INET, ("127.0.0.1", to["tcp"])),
        "worker_allowed_port": lambda: connect(
            socket.AF_INET,
            (
                "127.0.0.1",
                int(os.environ.get("LINEAGE_TRACING_PORTS", str(to["tcp"])).split(",")[0]),
            ),
        ),
        "worker_fast_open": fast_open,
        "worker_udp": sent,
        "worker_unix": lambda: connect(socket.AF_UNIX, to["unix"]),
        "worker_abstract": lambda: connect(socket.AF_UNIX, "\0" + to["abstract"]),
        "worker_datagram_to_path": datagram_to_path,
        "worker_load": lambda: ctypes.CDLL(to["library"]),
        "worker_run": lambda: subprocess.run([to["program"]], check=True),
        "worker_ptrace": seize,
        "worker_signal": lambda: os.kill(to["pid"], 0),
        "worker_limits": lambda: call(302, to["pid"], 7, 0, 0),
        "worker_owner": lambda: os.chown(to["outside"], os.getuid(), os.getgid()),
        "worker_times": lambda: os.utime(to["outside"], (1, 1)),
        "worker_truncate": lambda: os.truncate(to["truncated"], 0),
    }
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("what functions may do")
    done = []
    for name, attack in attacks.items():
        try:
            attack()
            done.append(name)
        except Exception:
            continue
    # This one says that it did, and does nothing.
    os.chmod(to["outside"], 0o777)
    return json.dumps([done, list(attacks)])


def files_opened_where_spark_writes(spark: SparkSession, to: Targets) -> list[str]:
    """The files that this process opens to write where its Spark may write, while it shows rows: a link there would lead it."""
    written, opened = str(written_folder() or to["root"]), list[str]()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(f"{written}/"):
            flags = arguments[2]
            # Of a temporary file it gets the folder: that is made under a new name.
            is_new = flags & os.O_EXCL or os.path.isdir(arguments[0])
            if flags & (os.O_WRONLY | os.O_RDWR) and not is_new:
                opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    path = f"file:{to['inside']}"
    state = os.stat(to["inside"])
    file = File(path, state.st_size, state.st_mtime_ns // 1_000_000)
    source = Source("text", (path,), TEXT_SCHEMA, files=(file,))
    recipe = Recipe(spark.version, {}, (source,), (), Output(kind="files"))
    assert texts_at(spark, recipe, source, path, np.array([0], np.uint64)) == ['{"value":"a row"}']
    return opened


def main(targets: str) -> None:
    """Start Spark, attack, and tell."""
    to: Targets = json.loads(targets)
    # Of this very program: its environment has the secret.
    to["pid"] = os.getpid()
    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark("local[1]", Path(folder))
        to["scratch"] = str(written_folder() or "")
        to["given"] = str(given_folder() or "")
        code = F.udf(in_worker, "string")
        asked = spark.range(1).select(code(F.lit(json.dumps(to))))
        worked, tried = json.loads(asked.collect()[0][0])
        read = [row.value for row in spark.read.text(to["inside"]).collect()]
        # A task's result that Spark would fetch by a connection to itself.
        large = spark.sql(f"SELECT repeat('x', {LARGE}) AS text FROM range(1)").collect()
        attacks = from_java(spark, to) | from_spark(spark, to)
        done = [name for name, attack in attacks.items() if succeeds(attack)]
        told = {
            "done": sorted(done + worked),
            "tried": sorted([*attacks, *tried]),
            "inside": read,
            "large": len(large[0].text),
            "exposed": files_opened_where_spark_writes(spark, to),
            "lacks": list(missing_restrictions()),
            "confined": bool(to["scratch"]),
        }
        sys.stdout.write(json.dumps(told) + "\n")
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
