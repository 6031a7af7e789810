"""Neo4j Community with a password of its own, on loopback."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from lineage.stack.downloads import jars
from lineage.stack.errors import StartError
from lineage.stack.ports import LOOPBACK
from lineage.stack.programs import java
from lineage.stack.server import NotReady, Say, Server, silent

USER = "neo4j"
DATABASE = "neo4j"
CHECK_LIMIT_S = 5.0
ADMIN_LIMIT_S = 120
ADMIN_HEAP = "256m"

CONFIG = """\
# Written by `lineage stack up` at each start.
server.default_listen_address={host}
server.bolt.listen_address={host}:{port}
server.bolt.advertised_address={host}:{port}
server.http.enabled=false
server.https.enabled=false
server.memory.pagecache.size={page_cache}
dbms.usage_report.enabled=false
# Transaction logs serve backups and replicas; there are none.
db.tx_log.rotation.retention_policy=keep_none
db.tx_log.preallocate=false
"""
PLUGINS_CONFIG = """\
server.directories.plugins={folder}
dbms.security.procedures.unrestricted=*
"""
OPENED_PACKAGES = ("java.nio", "java.io", "sun.nio.ch", "java.lang", "java.util.concurrent")
"""Of java.base, to Neo4j's own reflection."""


class Neo4j(Server):
    """A Neo4j server on loopback; the user is `neo4j`, the password lies in a file of mode 600.

    Args:
        folder: for its data, configuration, password and log.
        port: for bolt.
        heap: as java's -Xmx takes it.
        options: further ones of its JVMs.
        page_cache: memory beside the heap for the store's files.
        plugins: a folder of jars with procedures, all of which may do anything.
    """

    start_limit_s: ClassVar[float] = 180

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        heap: str = "1g",
        options: Sequence[str] = (),
        page_cache: str = "128m",
        plugins: Path | None = None,
    ) -> None:
        super().__init__("neo4j", folder, port)
        self.heap = heap
        self.options = tuple(options)
        self.page_cache = page_cache
        self.plugins = plugins

    @property
    def uri(self) -> str:
        return f"neo4j://{LOOPBACK}:{self.port}"

    @property
    def user(self) -> str:
        return USER

    @property
    def password_file(self) -> Path:
        return self.folder / "password"

    @property
    def password(self) -> str:
        """Raises OSError when `prepare` has not made one yet."""
        return self.password_file.read_text(encoding="ascii").strip()

    def prepare(self, say: Say = silent) -> None:
        jars("neo4j", say)
        for folder in (self._home, self._config.parent, self._temporary):
            folder.mkdir(parents=True, exist_ok=True)
        config = CONFIG.format(host=LOOPBACK, port=self.port, page_cache=self.page_cache)
        if self.plugins is not None:
            config += PLUGINS_CONFIG.format(folder=self.plugins)
        self._config.write_text(config, encoding="utf-8")
        if not self.password_file.exists():
            self._set_password()

    def command(self) -> list[str]:
        home = (f"--home-dir={self._home}", f"--config-dir={self._config.parent}")
        entry = "org.neo4j.server.CommunityEntryPoint"
        words = (*self.options, entry, *home, "--console-mode")
        return self._java(f"-Xmx{self.heap}", *words)

    def check(self) -> None:
        from neo4j import GraphDatabase
        from neo4j.exceptions import DriverError, Neo4jError

        try:
            with GraphDatabase.driver(
                # Not neo4j://, for that warns of each attempt that finds no server.
                f"bolt://{LOOPBACK}:{self.port}",
                auth=(USER, self.password),
                connection_timeout=CHECK_LIMIT_S,
                max_transaction_retry_time=0,
            ) as driver:
                driver.execute_query("RETURN 1", database_=DATABASE)
        except (DriverError, Neo4jError, OSError) as error:
            raise NotReady(f"no answer to a query from {self.uri}: {error}") from None

    def settings(self) -> dict[str, str]:
        return {
            "LINEAGE_STORE": self.uri,
            "LINEAGE_NEO4J_USER": USER,
            "LINEAGE_NEO4J_PASSWORD_FILE": str(self.password_file),
        }

    def admin(self, *words: str) -> None:
        """Run `neo4j-admin` on the server's data, which needs the server stopped for most commands.

        Raises:
            StartError: its exit code is not 0; the message has its output.
        """
        places = {"NEO4J_HOME": str(self._home), "NEO4J_CONF": str(self._config.parent)}
        completed = subprocess.run(
            self._java(f"-Xmx{ADMIN_HEAP}", *self.options, "org.neo4j.cli.AdminTool", *words),
            env={**os.environ, **places},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ADMIN_LIMIT_S,
            check=False,
        )
        if completed.returncode:
            output = completed.stderr or completed.stdout
            raise StartError(f"neo4j: neo4j-admin {' '.join(words[:2])} failed: {output}")

    @property
    def _home(self) -> Path:
        return self.folder / "home"

    @property
    def _config(self) -> Path:
        return self._home / "conf" / "neo4j.conf"

    @property
    def _temporary(self) -> Path:
        """Native libraries are unpacked here: in /tmp they would stay when Neo4j is killed."""
        return self.folder / "tmp"

    def _java(self, *words: str) -> list[str]:
        folders = [jars("neo4j"), *([self.plugins] if self.plugins is not None else [])]
        return [
            str(java()),
            *("-cp", os.pathsep.join(f"{folder}/*" for folder in folders)),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
            f"-Djava.io.tmpdir={self._temporary}",
            f"-XX:ErrorFile={self.folder / 'crash.log'}",
            "-XX:-UsePerfData",
            *words,
        ]

    def _set_password(self) -> None:
        """Make a password and give it to Neo4j, before its first start, by way of a file only."""
        password = secrets.token_hex(16)
        arguments = self._temporary / "arguments"
        write_secret(arguments, password)
        try:
            # Its command line reads further arguments from a file.
            self.admin("dbms", "set-initial-password", f"@{arguments}")
        finally:
            arguments.unlink()
        write_secret(self.password_file, password)


def write_secret(file: Path, text: str) -> None:
    """Write a file that no other user can read, not even while it is written."""
    draft = file.with_name(file.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text + "\n")
    draft.replace(file)
