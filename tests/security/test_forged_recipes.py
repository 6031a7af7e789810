"""Recipes that somebody forged, asked for over HTTP: refused by typed errors, and nothing outside of the roots is opened.

The server is a process of its own, whose Spark must be confined; it answers an honest recipe before and after them.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pyspark
import pytest

from lineage.stack.ports import free_ports
from lineage_core.contract.message import Link, Message, Register
from lineage_core.contract.message import Recipe as RecipeMessage
from lineage_core.recipe.document import File, Function, Output, Recipe, Source
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Filter,
    Literal,
    Project,
    PythonCall,
    Scan,
)
from lineage_dataframes.sandbox.names import SANDBOX
from lineage_store.sqlite.store import SqliteStore
from tests.support.job_runs import process
from tests.support.linker_worker import until
from tests.support.probing import asked

pytestmark = pytest.mark.security

APP = "app-forged"
SECRET = "lm-secret-of-somebody-else"
ID, CITY = Attribute(1, "id", "bigint"), Attribute(2, "city", "string")
TABLE = (ID, CITY)
SCHEMA = json.dumps({"type": "struct", "fields": [
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
    {"name": "city", "type": "string", "nullable": True, "metadata": {}},
]})  # fmt: skip
IN_OPEN = 0x20


@dataclass(frozen=True)
class Places:
    """What recipes name. ``port``: of a server that must not be connected to."""

    inside: Path
    outside: Path
    port: int


def noted(path: Path) -> File:
    """A file as a job that read it has it."""
    state = path.stat()
    return File(f"file:{path}", state.st_size, int(state.st_mtime * 1000))


def recipe(file: File, **source: Any) -> Recipe:
    """Rows of a file of text, as they are."""
    given = {"format": "csv", "paths": (file.path,), "schema": SCHEMA, "files": (file,), **source}
    return Recipe(
        pyspark.__version__,
        {"spark.sql.session.timeZone": "UTC"},
        (Source(**{"options": {"header": "true"}, **given}),),
        (Scan(TABLE, 0, ("id", "city")),),
        Output(action="collect"),
    )


def honest(at: Places) -> Recipe:
    return recipe(noted(at.inside / "orders.csv"))


def with_value(at: Places, value: Any) -> Recipe:
    """The second column is another value."""
    made = honest(at)
    return replace(made, plan=(*made.plan, Project(TABLE, 0, (Column(1), value))))


def forged(at: Places) -> dict[str, Recipe]:
    """Recipes by what is wrong with them."""
    good, secret = honest(at), noted(at.outside / "secret.csv")
    there = good.sources[0].files[0]

    def elsewhere(path: str, **source: Any) -> Recipe:
        return recipe(replace(secret, path=path), **source)

    def table(kind: str, path: str, **options: str) -> Recipe:
        return recipe(
            there, format=kind, paths=(path,), files=(), options=options, table="a.b", version="0"
        )

    outside = f"file:{at.outside}"
    text = Literal("x", "string")
    code = Function("f", "gASVAAAA", 100, '"string"', f"3.{sys.version_info.minor}")
    return {
        "a file outside": recipe(secret),
        "a path that leads out": elsewhere(f"file:{at.inside}/../outside/secret.csv"),
        "a link that leads out": elsewhere(f"file:{at.inside}/link.csv"),
        "a pattern": elsewhere(f"file:{at.inside}/../*/secret.csv"),
        "the environment": elsewhere("file:/proc/self/environ"),
        "a web server": elsewhere(f"http://127.0.0.1:{at.port}/secret.csv"),
        "a bucket": elsewhere("s3a://bucket/secret.csv"),
        "an option that names a path": recipe(
            there, options={"header": "true", "path": f"{at.outside}/secret.csv"}
        ),
        "an option of the file system": recipe(there, options={"fs.file.impl": "a.Class"}),
        "a table of Delta Lake": table("delta", f"{outside}/table"),
        "a table of Iceberg": table("iceberg", f"{outside}/table", metadata=f"{outside}/m.json"),
        "metadata of Iceberg": table(
            "iceberg", f"file:{at.inside}", metadata=f"{outside}/secret.csv"
        ),
        "a database": recipe(
            there,
            format="jdbc",
            paths=(),
            files=(),
            table="orders",
            options={"url": f"jdbc:postgresql://127.0.0.1:{at.port}/x", "dbtable": "orders"},
        ),
        "a format of code": recipe(there, format="org.example.Evil"),
        "an output outside": replace(
            good,
            output=Output("files", path=outside, format="csv", files=(secret,), action="save"),
        ),
        "java_method": with_value(
            at,
            Call("java_method", (Literal("java.lang.System", "string"), Literal("getenv", "string"))),
        ),
        "reflect": with_value(at, Call("reflect", (text, text))),
        "a function in words": with_value(at, Call("upper(city), secret", (Column(2),))),
        "a type in words": with_value(at, Call("cast", (Column(1),), "string) --")),
        "a bare constant": with_value(at, Literal("1 OR true", "int")),
        "code": replace(with_value(at, PythonCall("f", 0, (Column(2),), "string")), functions=(code,)),
        "code that decides": replace(
            good,
            plan=(
                *good.plan,
                Filter(TABLE, 0, Call("=", (PythonCall("f", 0, (Column(2),), "string"), text))),
                Aggregate((CITY,), 1, (Column(2),), (Column(2),)),
            ),
            functions=(code,),
        ),
        "a setting that substitutes": replace(
            good, settings={"spark.sql.variable.substitute": "true"}
        ),
        "a setting of jars": replace(good, settings={"spark.jars": f"{at.outside}/evil.jar"}),
        "a setting's value in words": replace(
            good, settings={"spark.sql.session.timeZone": "${env:LM_SECRET}"}
        ),
        "a schema that is none": recipe(there, schema='{"type":"struct","fields":[{"name":1}]}'),
        "a file that is not there": elsewhere(f"file:{at.inside}/gone.csv"),
    }  # fmt: skip


def messages(recipes: list[Recipe]) -> list[Message]:
    """What a job sends of them: a node each, by number."""
    made: list[Message] = []
    for number, one in enumerate(recipes):
        node = str(number)
        made += [
            Register(app=APP, node=f"{node}.0", kind="frame-source", op="csv", name="csv"),
            Register(app=APP, node=node, kind="frame", op="collect", name="collect"),
            Link(app=APP, src=f"{node}.0", dest=node),
            RecipeMessage(app=APP, node=node, recipe=one.to_json()),
        ]
    return made


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for one in (inside, outside, outside / "table" / "_delta_log"):
        one.mkdir(parents=True)
    (inside / "orders.csv").write_text("id,city\n1,Oslo\n2,Rome\n")
    (outside / "secret.csv").write_text(f"id,city\n1,Oslo\n2,{SECRET}\n")
    (outside / "m.json").write_text("{}")
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        yield Places(inside, outside, listening.getsockname()[1])
        with pytest.raises(BlockingIOError):
            listening.accept()


class ApplicationSnapshot:
    """Hears of what any process opens in folders (inotify)."""

    def __init__(self, *folders: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for one in folders:
            assert libc.inotify_add_watch(self._file, os.fsencode(one), IN_OPEN) >= 0

    def any(self) -> bool:
        """Whether something has been opened since it was asked last."""
        try:
            return bool(os.read(self._file, 1 << 16))
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self._file)


def ask(client: httpx.Client, node: int) -> httpx.Response:
    values = [{"column": "city", "value": "Oslo"}]
    body = {"direction": "backward", "start": {"node": str(node), "values": values}}
    return client.post(f"/v1/applications/{APP}/traces", json=body)


def test_forged_recipes_are_refused_and_nothing_outside_is_opened(
    places: Places, tmp_path: Path
) -> None:
    recipes = {"honest": honest(places), **forged(places)}
    store = tmp_path / "lineage.db"
    with SqliteStore(str(store)) as made:
        made.write(APP, messages(list(recipes.values())))
    (port,) = free_ports(1)
    env = {
        "LINEAGE_STORE": f"sqlite:///{store}",
        "LINEAGE_SPARK_MASTER": "local[1]",
        SANDBOX: "required",
        "LINEAGE_API_PORT": str(port),
        "LINEAGE_API_OPEN": "true",
        "LINEAGE_API_ROOTS": str(places.inside),
        "LINEAGE_JDBC_URL": f"jdbc:postgresql://127.0.0.1:{places.port}/x",
        "LM_SECRET": SECRET,
        "TMPDIR": str(tmp_path / "temporary"),
    }
    (tmp_path / "temporary").mkdir()
    log, url = tmp_path / "api.log", f"http://127.0.0.1:{port}"
    opened = ApplicationSnapshot(
        places.outside, places.outside / "table", places.outside / "table/_delta_log"
    )
    command = [sys.executable, "-m", "lineage_query_api"]
    with process(command, log, env), httpx.Client(base_url=url, timeout=300) as client:
        until(lambda: asked(port, "/healthz")[0] == 200, lambda: log.read_text()[-2000:])
        found = {name: ask(client, number) for number, name in enumerate(recipes)}
        again = ask(client, 0)
        ready = client.get("/readyz").json()
    good = found.pop("honest")
    for one in (good, again):
        assert one.status_code == 200, one.text
        (location,) = [
            item["location"] for group in one.json()["groups"] for item in group["items"]
        ]
        assert location == f"{places.inside}/orders.csv:2"
    said = {name: (one.status_code, one.text) for name, one in found.items()}
    for name, (status, text) in said.items():
        assert SECRET not in text, name
        assert 400 <= status < 500, (name, status, text)
        assert json.loads(text)["detail"], name
    assert SECRET not in log.read_text()
    assert not opened.any()
    # It hears of it, if somebody does.
    (places.outside / "secret.csv").read_text()
    assert opened.any()
    opened.close()
    assert ready == {"ready": True, "problems": {}}
    assert not list((tmp_path / "temporary").glob("lineage-*"))
