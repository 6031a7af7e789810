"""Redis: append-only, never evicting, on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from lineage.stack.ports import LOOPBACK
from lineage.stack.programs import redis_server
from lineage.stack.server import NotReady, Say, Server, silent

CHECK_LIMIT_S = 2.0

CONFIG = """\
# Written by `lineage stack up` at each start.
bind {host}
port {port}
daemonize no
dir "{data}"
appendonly yes
appendfsync everysec
# The append-only file is the one copy of the data.
save ""
maxmemory {memory}
# Full: writes are refused and the writer waits; nothing is forgotten.
maxmemory-policy noeviction
"""


class Redis(Server):
    """A Redis server on loopback, without a password.

    Args:
        folder: for its data, configuration and log.
        port: for clients.
        memory: bound of its data, as Redis' maxmemory takes it.
    """

    stop_limit_s: ClassVar[float] = 30

    def __init__(self, folder: Path, port: int, *, memory: str = "1gb") -> None:
        super().__init__("redis", folder, port)
        self.memory = memory

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def prepare(self, say: Say = silent) -> None:
        redis_server()
        self._data.mkdir(parents=True, exist_ok=True)
        config = CONFIG.format(host=LOOPBACK, port=self.port, data=self._data, memory=self.memory)
        self._config.write_text(config, encoding="utf-8")

    def command(self) -> list[str]:
        return [str(redis_server()), str(self._config)]

    def check(self) -> None:
        from redis import Redis as Client
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
        from redis.retry import Retry

        try:
            with Client(
                host=LOOPBACK,
                port=self.port,
                socket_timeout=CHECK_LIMIT_S,
                socket_connect_timeout=CHECK_LIMIT_S,
                # One attempt; the caller retries.
                retry=Retry(NoBackoff(), 0),
            ) as client:
                client.ping()
        except (RedisError, OSError) as error:
            raise NotReady(f"no PONG from {LOOPBACK}:{self.port}: {error}") from None

    def settings(self) -> dict[str, str]:
        return {"LINEAGE_REDIS": self.url}

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _config(self) -> Path:
        return self.folder / "redis.conf"
