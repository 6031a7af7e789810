"""Our own services: Python programs that find the servers by their environment."""

from __future__ import annotations

import importlib.util
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lineage.stack.ports import LOOPBACK
from lineage.stack.server import NotReady, Say, Server, silent
from lineage_core.environment.module_programs import module_command

CHECK_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """A service that the stack knows.

    ``module`` runs it (`python -m`), ``needs`` are the servers whose settings it gets, and
    ``port_variable`` sets the port of /healthz and /readyz. ``more``: further environment variables.
    ``has_page``: users open its address in a browser.
    """

    name: str
    module: str
    needs: frozenset[str]
    port_variable: str
    more: Callable[[], Mapping[str, str]] = dict
    has_page: bool = False

    def is_installed(self) -> bool:
        """Whether there is such a program in this environment."""
        try:
            return importlib.util.find_spec(f"{self.module}.__main__") is not None
        except ModuleNotFoundError:
            return False


def _for_this_machine() -> dict[str, str]:
    """As `lineage ui`: only the user who starts it has access, by a token.

    The API reads rows only of files below the folder in which the stack is started: any user of this machine
    may send Kafka a message that a job read some file, and a client with a token could then read it by the API.
    """
    roots = os.environ.get("LINEAGE_API_ROOTS", "") or str(Path.cwd())
    return {"LINEAGE_API_HOST": LOOPBACK, "LINEAGE_API_ROOTS": roots}


KINDS = (
    ServiceKind(
        "linker", "lineage_linker", frozenset({"kafka", "redis"}), "LINEAGE_LINKER_HTTP_PORT"
    ),
    ServiceKind(
        "writer", "lineage_writer", frozenset({"kafka", "neo4j"}), "LINEAGE_WRITER_HTTP_PORT"
    ),
    ServiceKind(
        "query-api",
        "lineage_query_api",
        frozenset({"kafka", "neo4j"}),
        "LINEAGE_API_PORT",
        _for_this_machine,
        has_page=True,
    ),
)


class Service(Server):
    """One process of a service.

    Args:
        kind: which service.
        folder: for its log; also its working directory.
        port: for /healthz, /readyz and metrics.
        settings: of the servers that it needs.
    """

    stop_limit_s: ClassVar[float] = 30

    def __init__(
        self, kind: ServiceKind, folder: Path, port: int, settings: Mapping[str, str]
    ) -> None:
        super().__init__(kind.name, folder, port, kind.needs)
        self._kind = kind
        self._settings = dict(settings)

    def prepare(self, say: Say = silent) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        return module_command(self._kind.module)

    def environment(self) -> dict[str, str]:
        return {
            **self._settings,
            **self._kind.more(),
            self._kind.port_variable: str(self.port),
        }

    @property
    def address(self) -> str:
        return f"http://{super().address}" if self._kind.has_page else super().address

    def check(self) -> None:
        url = f"http://{LOOPBACK}:{self.port}/readyz"
        try:
            # Loopback: whatever proxy the environment names has no part in it.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(url, timeout=CHECK_LIMIT_S):
                return
        except urllib.error.HTTPError as error:
            with error:
                raise NotReady(f"{url} answers {error.code}") from None
        except OSError as error:
            raise NotReady(f"{url} does not answer: {error}") from None
