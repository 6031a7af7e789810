"""Who sends too many requests is held, however many servers and addresses they use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from redis import Redis
from redis.exceptions import NoPermissionError

from lineage.stack import supervisor
from lineage.stack.ports import free_ports
from lineage_query_api import rates
from lineage_query_api.app import READY_S, create_app
from lineage_query_api.errors import SettingsError
from lineage_query_api.rates import ANSWER_S, KEY_PREFIX, RETRY_S, Rates, caller_of
from lineage_query_api.settings import read_redis_settings, read_settings
from lineage_store.sqlite.store import SqliteStore
from tests.support import secured
from tests.support.api_server import serving
from tests.support.servers import Native, RedisUnderTest, guarded

pytestmark = pytest.mark.security
RATE = "5/minute"
DOCS = Path(__file__).resolve().parents[2] / "docs"
PROXIES = "127.0.0.0/8"


@pytest.fixture
def two(
    redis_server: RedisUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of two servers of one store that count in one Redis."""
    redis_server.clear()
    for name, value in redis_server.settings.items():
        monkeypatch.setenv(name, value)
    url = f"sqlite:///{tmp_path}/lineage.db"
    SqliteStore(tmp_path / "lineage.db").close()
    given = {"api_rate": RATE, "api_proxies": PROXIES}
    with (
        serving(url, **given) as one,
        serving(url, **given) as other,
        httpx.Client(base_url=one, timeout=10) as first,
        httpx.Client(base_url=other, timeout=10) as second,
    ):
        yield first, second


def ask(server: httpx.Client, caller: str) -> httpx.Response:
    return server.get("/v1/me", headers={"X-Forwarded-For": caller})


def failures(server: httpx.Client) -> float:
    lines = server.get("/metrics").text.splitlines()
    (line,) = (one for one in lines if one.startswith("lineage_api_rate_failures_total"))
    return float(line.split()[1])


def test_servers_count_a_caller_together(
    two: tuple[httpx.Client, httpx.Client], redis_server: RedisUnderTest
) -> None:
    found = [ask(two[number % 2], "192.0.2.1") for number in range(8)]
    assert [one.status_code for one in found] == [200] * 5 + [429] * 3
    assert all(0 < int(one.headers["Retry-After"]) <= 61 for one in found[5:])
    assert ask(two[0], "192.0.2.2").status_code == 200
    # Another port, or another spelling of the address, is the same caller.
    for spelled in ("192.0.2.1:4711", "::ffff:192.0.2.1", "[::ffff:c000:201]:80"):
        assert ask(two[1], spelled).status_code == 429
    with redis_server.client() as client:
        keys = [key.decode() for key in client.scan_iter("*")]
        assert all(key.startswith(f"{KEY_PREFIX}:") for key in keys)
        assert all(0 < client.pttl(key) <= 120_000 for key in keys)


def test_a_network_of_ipv6_is_one_caller(two: tuple[httpx.Client, httpx.Client]) -> None:
    found = [ask(two[n % 2], f"2001:db8:1:2::{n:x}").status_code for n in range(7)]
    assert found == [200] * 5 + [429] * 2
    assert ask(two[0], "2001:db8:1:3::1").status_code == 200


def test_each_server_limits_by_itself_while_redis_is_away_and_says_so(
    two: tuple[httpx.Client, httpx.Client], redis_server: RedisUnderTest
) -> None:
    assert two[0].get("/readyz").json() == {"ready": True, "problems": {}}
    with redis_server.down():
        for server in two:
            statuses = [ask(server, "192.0.2.9").status_code for _ in range(7)]
            assert statuses == [200] * 5 + [429] * 2
            ready = server.get("/readyz")
            assert ready.status_code == 200
            assert "Redis" in ready.json()["problems"]["rates"]
            assert failures(server) >= 1
    deadline = time.monotonic() + 30
    number = 0
    while two[0].get("/readyz").json()["problems"]:
        assert time.monotonic() < deadline, "Redis is back, and is not asked"
        number += 1
        ask(two[0], f"198.51.{number // 200}.{number % 200}")


def test_a_redis_that_hangs_holds_no_request_up(
    two: tuple[httpx.Client, httpx.Client], redis_server: RedisUnderTest
) -> None:
    assert ask(two[0], "192.0.2.7").status_code == 200
    with redis_server.paused():
        began = time.monotonic()
        statuses = [ask(two[0], f"203.0.113.{n}").status_code for n in range(40)]
        took = time.monotonic() - began
    assert statuses == [200] * 40
    # It is asked by one request in each RETRY_S.
    assert failures(two[0]) <= took / RETRY_S + 2
    assert took < 40 * ANSWER_S


def test_the_servers_user_counts_and_reaches_no_other_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(tmp_path / "lineage.db").close()
    # A busy machine answers late, and then each server counts for itself.
    monkeypatch.setattr(rates, "ANSWER_S", 10.0)
    with guarded(tmp_path / "run") as run:
        files = secured.Files(run.folder / "secrets")
        (port,) = free_ports(1)
        redis = secured.SecuredRedis(run.folder / "redis", port, files)
        supervisor.start(redis)
        run.runners.append(Native(redis))
        supervisor.wait_ready(redis)
        given = redis.user_settings(secured.API)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        with (
            serving(f"sqlite:///{tmp_path}/lineage.db", api_rate=RATE) as at,
            httpx.Client(base_url=at, timeout=10) as server,
        ):
            assert [ask(server, "").status_code for _ in range(7)] == [200] * 5 + [429] * 2
            assert server.get("/readyz").json()["problems"] == {}
        pool = Redis.from_url(redis.url, **read_redis_settings().redis_arguments())
        with pool as client:
            for command in (("GET", "lm:x"), ("SET", "x", 1), ("KEYS", "*"), ("FLUSHALL",)):
                with pytest.raises(NoPermissionError):
                    client.execute_command(*command)
        monkeypatch.setenv("LINEAGE_REDIS_PASSWORD_FILE", str(tmp_path / "none"))
        with pytest.raises(SettingsError, match="redis_password_file"):
            Rates(RATE, read_redis_settings(), CollectorRegistry())
    lines = " ".join((DOCS / "guide/security.md").read_text().split())
    assert secured.API_ACL.format(sha256="HASH") in lines


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:DB8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("_hidden", "unknown"),
        ("x" * 100_000, "unknown"),
        ("192.0.2.1\r\nSET a b", "unknown"),
    ],
    ids=lambda text: text[:20],
)
def test_a_caller_is_an_address_or_nobody(host: str, caller: str) -> None:
    assert caller_of(host) == caller


def test_a_login_in_the_address_of_redis_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINEAGE_REDIS", "redis://api:hush@there:6379/0")
    with pytest.raises(SettingsError, match="LINEAGE_REDIS") as refused:
        read_redis_settings()
    assert "hush" not in str(refused.value)


def test_probes_ask_the_store_no_more_often_than_they_need_to(tmp_path: Path) -> None:
    class Counting(SqliteStore):
        asked = 0

        def application_ids(self) -> Sequence[str]:
            self.asked += 1
            return super().application_ids()

    with Counting(tmp_path / "lineage.db") as store:
        server = create_app(store, read_settings(api_open=True))
        with TestClient(server, base_url="http://127.0.0.1:8484") as client:
            before, begun = store.asked, time.monotonic()
            for _ in range(50):
                assert client.get("/readyz").status_code == 200
            seconds = time.monotonic() - begun
        assert store.asked - before <= 1 + seconds / READY_S
