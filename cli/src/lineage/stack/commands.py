"""``lineage stack``: the commands a person types."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from lineage.options import EXIT_INCOMPLETE, JsonOption, print_json, reported
from lineage.terminal import echo
from lineage_service.local_servers import running_at

app = typer.Typer(
    name="stack",
    help="Kafka, Redis, Neo4j and the services between them on this machine, without containers.",
    no_args_is_help=True,
)

DirOption = Annotated[
    Path, typer.Option("--dir", metavar="FOLDER", help="Data, logs and state of the stack.")
]
OnlyOption = Annotated[
    str, typer.Option("--only", metavar="NAMES", help="Just these: kafka,redis,neo4j,...")
]
DEFAULT_DIR = Path(".lineage/stack")


def _names(only: str) -> list[str]:
    return [name.strip() for name in only.split(",") if name.strip()]


def _say(text: str) -> None:
    echo(text, err=True)


@app.command("up")
@reported
def up(
    folder: DirOption = DEFAULT_DIR,
    only: OnlyOption = "",
    partitions: Annotated[
        int | None,
        typer.Option(help="Of lineage-flow and lineage-edge, when they are made (default: 4)."),
    ] = None,
    kafka_heap: Annotated[str | None, typer.Option(help="Memory bound (default: 512m).")] = None,
    redis_memory: Annotated[str | None, typer.Option(help="Memory bound (default: 1g).")] = None,
    neo4j_heap: Annotated[str | None, typer.Option(help="Memory bound (default: 1g).")] = None,
    neo4j_page_cache: Annotated[
        str | None, typer.Option(help="Memory beside the heap (default: 128m).")
    ] = None,
) -> None:
    """Start what does not run yet, and wait until all answers.

    Data of an earlier start is used again, after a crash too.
    """
    from lineage.stack import running

    options = {
        "partitions": partitions,
        "kafka_heap": kafka_heap,
        "redis_memory": redis_memory,
        "neo4j_heap": neo4j_heap,
        "neo4j_page_cache": neo4j_page_cache,
    }
    for server in running.up(folder.absolute(), _names(only), options, _say):
        if server.address.startswith("http://"):
            local = running_at(server.address)
            echo(f"page and API: {server.address if local is None else local.page}")
    named = "" if folder == DEFAULT_DIR else f" --dir {shlex.quote(str(folder))}"
    echo(f'next: eval "$(lineage stack env{named})"')


@app.command("status")
@reported
def status(folder: DirOption = DEFAULT_DIR, as_json: JsonOption = False) -> None:
    """Say how each server is; exit code 1 unless all are ready."""
    from lineage.stack import running, supervisor
    from lineage.stack.assembly import servers_of

    state = running.required_state(folder.absolute())
    rows = []
    for server in servers_of(folder.absolute(), state, state.servers):
        process = supervisor.running(server)
        rows.append(
            {
                "name": server.name,
                "state": supervisor.state_of(server).value,
                "pid": process.pid if process else None,
                "address": server.address,
                "log": str(server.log),
            }
        )
    ready = all(row["state"] == supervisor.State.READY for row in rows)
    if as_json:
        print_json({"folder": str(folder.absolute()), "ready": ready, "servers": rows})
    else:
        for row in rows:
            pid = f"pid {row['pid']}" if row["pid"] else ""
            echo(f"{row['name']:<9} {row['state']:<10} {row['address']:<23} {pid}".rstrip())
    if not ready:
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command("logs")
@reported
def logs(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Of servers.")] = None,
    folder: DirOption = DEFAULT_DIR,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines of each.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as they grow, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the end of the servers' logs."""
    from lineage.stack import running, supervisor
    from lineage.stack.assembly import servers_of

    state = running.required_state(folder.absolute())
    servers = servers_of(folder.absolute(), state, running.chosen(state, names or []))
    tail = shutil.which("tail")
    if follow and tail:
        files = [str(server.log) for server in servers]
        os.execv(tail, [tail, "-F", "-n", str(lines), *files])
    for server in servers:
        if len(servers) > 1:
            echo(f"==> {server.log} <==")
        for line in supervisor.log_tail(server, lines):
            echo(line)


@app.command("env")
@reported
def env(folder: DirOption = DEFAULT_DIR) -> None:
    """Print the settings that use the stack, for the shell: eval "$(lineage stack env)"."""
    from lineage.stack import running, supervisor
    from lineage.stack.assembly import servers_of, settings_of

    state = running.required_state(folder.absolute())
    servers = servers_of(folder.absolute(), state, state.servers)
    for name, value in settings_of(folder.absolute(), servers).items():
        echo(f"export {name}={shlex.quote(value)}")
    down = [server.name for server in servers if supervisor.running(server) is None]
    if down:
        _say(f"lineage: not running: {', '.join(down)}; `lineage stack up` starts them")


@app.command("down")
@reported
def down(
    folder: DirOption = DEFAULT_DIR,
    only: OnlyOption = "",
    purge: Annotated[
        bool,
        typer.Option(
            "--purge", help="Remove all data too, blocks that wait in the spool included."
        ),
    ] = False,
) -> None:
    """Stop the servers; their data stays for the next up."""
    from lineage.stack import running

    running.down(folder.absolute(), _names(only), purge=purge, say=_say)
