"""``lineage ui``, ``lineage token``, ``lineage login`` and ``lineage logout``."""

from __future__ import annotations

import os
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Literal

import typer

from lineage.options import DEFAULT_STORE, StoreOption, chosen_store, reported
from lineage.servers import SERVER_SCHEMES
from lineage.terminal import echo
from lineage_core.environment.shown_address import shown_address
from lineage_service.local_servers import LocalServer, leading_page, running_at
from lineage_store.errors import StoreError

app = typer.Typer()
QUERY_S = "LINEAGE_API_QUERY_S"
QUERY_LONG_S = 600.0
"""Seconds that a question may take over the user's own data: the page shows its progress, and cancels it."""


@app.command("ui")
@reported
def ui(
    context: typer.Context,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 8484,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Holds the token (default: a new one)."),
    ] = None,
    store: StoreOption = "",
) -> None:
    """Open the web page over a store, for you alone; Ctrl-C ends it.

    A store that is not there yet begins empty, and the page says how to fill it.

    Rows of DataFrames are traced by a Spark of this machine, which the first question about them starts
    (LINEAGE_SPARK_MASTER: another one).

    The address that is printed holds a token: it is required for access. Commands of yours
    (`--store http://127.0.0.1:PORT`) find it by themselves. LINEAGE_API_TOKEN sets another one.
    """
    from lineage_query.rows.reader import RowReader
    from lineage_query_api.app import create_app, local_token
    from lineage_query_api.page import require_page
    from lineage_query_api.serving import serve
    from lineage_query_api.settings import read_settings
    from lineage_service.logs import set_up_logs
    from lineage_store.url import index_folder, open_store

    url = chosen_store(context, store)
    if url.startswith(SERVER_SCHEMES):
        _show(running_at(url) or LocalServer(url, ""), browser)
        return
    require_page()
    served = _absolute(url)
    already = running_at(f"http://127.0.0.1:{port}")
    if already is not None and already.store == served:
        echo(f"lineage of {shown_address(url)} is served already, at {already.page}")
        _open(already, browser)
        return
    set_up_logs("warning", ("neo4j", "uvicorn"))
    settings = read_settings(
        store=served, api_host="127.0.0.1", api_port=port, **_token(token_file), **_spark()
    )
    with open_store(url, create=True) as opened:
        # The person at this machine may read what they may read anyway.
        app = create_app(opened, settings, RowReader(index_folder(url)))
        token = local_token(app)

        def ready(address: str, _: Path | None) -> None:
            server = LocalServer(address, token, served)
            echo(f"lineage of {url} at {server.page} (Ctrl-C ends it)")
            if not opened.application_ids():
                echo(
                    f"no application is there yet: run `lineage --store {shlex.quote(served)} run JOB`"
                )
            _open(server, browser)

        serve(app, "127.0.0.1", port, ready, token=token, store=served)


def _token(file: Path | None) -> dict[str, str]:
    # No --token: every user of the machine can read command lines.
    return {} if file is None else {"api_token": file.read_text(encoding="utf-8").strip()}


def _spark() -> dict[str, object]:
    """Settings of the Spark that traces rows of DataFrames, where the user has set none: one of this machine.

    A Java that fits is taken from where the system has it, if the one of JAVA_HOME or the PATH does not.
    """
    from lineage.background.sessions import MASTER
    from lineage_dataframes.spark.java import find_java, spark_version

    settings: dict[str, object] = {}
    if not os.environ.get(MASTER):
        settings["spark_master"] = "local[*]"
        java = find_java(spark_version() or "4")
        if not java.problem:
            os.environ["JAVA_HOME"] = java.home
    if not os.environ.get(QUERY_S):
        settings["api_query_s"] = QUERY_LONG_S
    return settings


def _absolute(url: str) -> str:
    """A store by a name that means the same in every folder."""
    from lineage_store.url import absolute_store

    return absolute_store(url)


def _show(server: LocalServer, browser: bool) -> None:
    echo(server.page)
    _open(server, browser)


def _open(server: LocalServer, browser: bool) -> None:
    if browser:
        webbrowser.open(leading_page(server) if server.token else server.url)


@app.command("token")
@reported
def token(
    name: Annotated[str, typer.Argument(help="Who it is for.")],
    role: Annotated[
        Literal["reader", "admin"],
        typer.Option(help="An admin may read the text of rows and make record-level views."),
    ] = "reader",
    rows: Annotated[bool, typer.Option("--rows", help="May read the text of rows.")] = False,
    delete: Annotated[
        bool,
        typer.Option("--delete/--no-delete", help="May delete applications, whatever the role."),
    ] = False,
    erase: Annotated[
        bool,
        typer.Option("--erase", help="May make plans of what is to be erased, whatever the role."),
    ] = False,
    access: Annotated[
        bool,
        typer.Option(
            "--access", help="May have access requests answered; needs the right to rows, too."
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="May watch records of running jobs; needs the right to rows, too."
        ),
    ] = False,
) -> None:
    """Make a bearer token for a server of the query API.

    The token goes to stderr, once: give it to its owner. What goes to stdout holds just its hash:
    add it to the file that LINEAGE_API_TOKENS of the server names.
    """
    from lineage_query_api.auth import new_token

    secret, lines = new_token(
        name, role, rows=rows, delete=delete, erase=erase, access=access, watch=watch
    )
    echo(lines, nl=False)
    sys.stdout.flush()
    echo(secret, err=True)


@app.command("login")
@reported
def login(
    context: typer.Context,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The server (default: the store that is set).")
    ] = "",
) -> None:
    """Keep a token for a server; the command prompts for it, or reads it from stdin where that is no terminal."""
    from lineage.credentials import keep
    from lineage.served import ServedAccess

    server = _server(context, url)
    entered = (
        typer.prompt(f"token for {shown_address(server)}", hide_input=True)
        if sys.stdin.isatty()
        else sys.stdin.readline()
    ).strip()
    if not entered:
        raise StoreError("no token was given")
    with ServedAccess(server, entered) as access:
        me = access.me()
    file = keep(server, entered)
    rights = "may read rows" if me["rows"] else "may not read the text of rows"
    # An older server does not send these.
    for right, text in (
        ("delete", "may delete"),
        ("erase", "may plan erasures"),
        ("access", "may answer access requests"),
        ("watch", "may watch running jobs"),
    ):
        rights += f", {text}" * bool(me.get(right))
    echo(
        f"logged in to {shown_address(server)} as {me['name']} ({me['role']}, {rights}); kept in {file}"
    )


@app.command("logout")
@reported
def logout(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="The server.")] = "",
) -> None:
    """Forget the token for a server."""
    from lineage.credentials import keep

    server = _server(context, url)
    keep(server, "")
    echo(f"no token is kept for {shown_address(server)}")


def _server(context: typer.Context, url: str) -> str:
    server = url or chosen_store(context, os.environ.get("LINEAGE_STORE", ""))
    if not server.startswith(SERVER_SCHEMES):
        raise StoreError(
            f"{shown_address(server) if server != DEFAULT_STORE else 'the default store'} is no server: "
            "name one as http://HOST:PORT or https://HOST"
        )
    return server.rstrip("/")
