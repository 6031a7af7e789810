"""Storages that a lake may be on, with their own servers: Hadoop's NameNode and DataNode, and Azurite, the one of Azure's makers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any

from lineage.stack.downloads import cache_folder
from lineage.stack.ports import LOOPBACK, free_ports
from lineage.stack.programs import java
from lineage.stack.server import NotReady, Say, Server, silent
from tests.support import jvm
from tests.support.fetched_jars import fetched_jars
from tests.support.servers import Native, ServersOfTheRun

TESTS = Path(__file__).resolve().parents[1]
ANSWER_S = 5.0
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Of every Azurite: its documentation says it."""
CONTAINER = "lineage"

_CLASSES = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
_NODE = str(TESTS.parent / "scripts/node.sh")
_folders = itertools.count()


class StorageUnderTest(ABC):
    """A storage that runs, until it is killed; on the same ports and data when it is started again."""

    def __init__(self, servers: ServersOfTheRun, made: Sequence[Server]) -> None:
        self._runners = [Native(server) for server in made]
        servers.runners.extend(self._runners)
        self.start()

    @abstractmethod
    def folder(self) -> str:
        """The URL of a folder that is not there yet."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The environment of programs that use it."""
        return {}

    def start(self) -> None:
        """Start its servers; returns when they answer."""
        for runner in self._runners:
            runner.start()

    def kill(self) -> None:
        """As kill -9 does, the last server first."""
        for runner in reversed(self._runners):
            runner.signal(signal.SIGKILL)


class Hdfs(StorageUnderTest):
    """A NameNode and a DataNode."""

    def __init__(self, servers: ServersOfTheRun) -> None:
        self._ports = free_ports(5)
        folder = servers.folder / "hdfs"
        super().__init__(
            servers, [_HadoopServer(kind, folder, self._ports) for kind in ("namenode", "datanode")]
        )

    def folder(self) -> str:
        return f"hdfs://{LOOPBACK}:{self._ports[0]}/lakes/{next(_folders)}"


class Azure(StorageUnderTest):
    """Azurite, with a container."""

    def __init__(self, servers: ServersOfTheRun) -> None:
        (self._port,) = free_ports(1)
        super().__init__(servers, [_Azurite(servers.folder / "azurite", self._port)])
        _make_container(self._port)

    def folder(self) -> str:
        return f"az://{CONTAINER}/lakes/{next(_folders)}"

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://{LOOPBACK}:{self._port}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
        }


class _HadoopServer(Server):
    """One of the two servers of HDFS. Both have the same files of settings, which are on their class path."""

    def __init__(self, kind: str, folder: Path, ports: Sequence[int]) -> None:
        super().__init__(kind, folder, ports[0 if kind == "namenode" else 2])
        self._all_ports = ports

    def prepare(self, say: Say = silent) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        rpc, http, *of_data = (f"{LOOPBACK}:{port}" for port in self._all_ports)
        settings = {
            "core-site.xml": {
                "fs.defaultFS": f"hdfs://{rpc}",
                "hadoop.tmp.dir": self.folder / "tmp",
            },
            "hdfs-site.xml": {
                "dfs.namenode.rpc-address": rpc,
                "dfs.namenode.http-address": http,
                "dfs.namenode.name.dir": self.folder / "names",
                "dfs.namenode.safemode.extension": 0,
                "dfs.namenode.resource.du.reserved": 0,
                "dfs.datanode.address": of_data[0],
                "dfs.datanode.http.address": of_data[1],
                "dfs.datanode.ipc.address": of_data[2],
                "dfs.datanode.data.dir": self.folder / "blocks",
                "dfs.replication": 1,
            },
        }
        for name, values in settings.items():
            properties = "".join(
                f"<property><name>{key}</name><value>{value}</value></property>"
                for key, value in values.items()
            )
            text = f"<configuration>{properties}</configuration>\n"
            (self.folder / name).write_text(text, encoding="utf-8")
        if self.name == "namenode" and not (self.folder / "names").exists():
            subprocess.run(
                [*self.command(), "-format", "-nonInteractive"],
                cwd=self.folder,
                capture_output=True,
                check=True,
                timeout=self.start_limit_s,
            )

    def command(self) -> list[str]:
        classes = f"{self.folder}:{fetched_jars(TESTS / 'hadoop/cluster')}/*"
        return [
            *(str(java()), "-Xmx256m", *jvm.OPTIONS.split(), f"-Djava.io.tmpdir={self.folder}"),
            *("-cp", classes, _CLASSES[self.name]),
        ]

    def check(self) -> None:
        """The NameNode serves when it is asked; the DataNode, when the NameNode gives it blocks to hold."""
        state = self._bean("FSNamesystemState")
        if self.name == "datanode" and (
            state["NumLiveDataNodes"] != 1 or self._bean("NameNodeInfo")["Safemode"]
        ):
            raise NotReady(f"no DataNode, or safe mode: {state}")

    def _bean(self, name: str) -> Any:
        url = f"http://{LOOPBACK}:{self._all_ports[1]}/jmx?qry=Hadoop:service=NameNode,name={name}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_S) as reply:
                (bean,) = json.load(reply)["beans"]
        except (OSError, ValueError) as error:
            raise NotReady(f"{url}: {error}") from None
        return bean


class _Azurite(Server):
    def __init__(self, folder: Path, port: int) -> None:
        super().__init__("azurite", folder, port)

    def prepare(self, say: Say = silent) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        program = _azurite() / "node_modules/azurite/dist/src/blob/main.js"
        return [
            *(_NODE, "exec", "node", str(program), "--silent", "--disableTelemetry"),
            *("--blobHost", LOOPBACK, "--blobPort", str(self.port)),
            *("--location", str(self.folder), "--skipApiVersionCheck"),
        ]

    def check(self) -> None:
        try:
            urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/", timeout=ANSWER_S).close()
        except urllib.error.HTTPError as refusal:
            refusal.close()
        except OSError as error:
            raise NotReady(str(error)) from None


def _azurite() -> Path:
    """The folder with Azurite, as the lock in `tests/azurite` pins it; fetched once for a machine's user."""
    listed = TESTS / "azurite"
    digest = hashlib.sha256((listed / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"azurite-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=folder.name, dir=folder.parent) as draft:
            made = Path(draft) / "azurite"
            shutil.copytree(listed, made)
            command = [_NODE, "exec", "npm", "ci", "--loglevel=error"]
            subprocess.run(command, cwd=made, check=True, timeout=900)
            made.rename(folder)
    return folder


def _make_container(port: int) -> None:
    path = f"/{ACCOUNT}/{CONTAINER}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = [f"{name}:{value}" for name, value in headers.items()]
    empty = [""] * 11
    signed = "\n".join(["PUT", *empty, *named, f"/{ACCOUNT}{path}", "restype:container"])
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
    login = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{port}{path}?restype=container",
        method="PUT",
        headers={**headers, "Authorization": login, "Content-Length": "0"},
    )
    urllib.request.urlopen(request, timeout=ANSWER_S).close()
