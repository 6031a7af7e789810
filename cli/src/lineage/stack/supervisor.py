"""Start, watch and stop servers, from any process and at any later time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lineage.stack import processes
from lineage.stack.errors import StartError
from lineage.stack.ports import is_free
from lineage.stack.processes import Process
from lineage.stack.server import NotReady, Say, Server, silent
from lineage_core.text_enum import StrEnum

POLL_S = 0.2
LOG_TAIL_LINES = 15
LOG_TAIL_BYTES = 64 << 10


class State(StrEnum):
    """How a server is."""

    READY = "ready"
    NOT_READY = "not ready"
    """It runs but does not answer: it is starting, or hangs."""
    ENDED = "ended"
    """It was started and not stopped by us: it crashed or was killed."""
    STOPPED = "stopped"


def running(server: Server) -> Process | None:
    """The server's process, if it runs."""
    process = processes.load(server.pid_file)
    return process if process is not None and process.is_running() else None


def state_of(server: Server) -> State:
    """The current state of the server; sends it a request, so this takes seconds when it hangs."""
    if running(server) is None:
        return State.ENDED if server.pid_file.exists() else State.STOPPED
    try:
        server.check()
    except NotReady:
        return State.NOT_READY
    return State.READY


def start(server: Server, say: Say = silent) -> Process:
    """Start a server unless it runs; returns at once, before it is ready.

    Raises:
        StackError: something that it needs is missing, or its port is taken.
    """
    process = running(server)
    if process is not None:
        return process
    server.prepare(say)
    for use, port in server.ports.items():
        if not is_free(port):
            raise StartError(
                f"{server.name}: another program listens on port {port} ({use}); stop that program"
            )
    process = processes.start(
        server.command(), environment=server.environment(), folder=server.folder, log=server.log
    )
    processes.save(process, server.pid_file)
    return process


def wait_ready(server: Server, limit_s: float | None = None) -> None:
    """Wait until a started server answers, then do what is to be done after its start.

    Raises:
        StartError: it ended, or did not answer within its limit; the message holds the end of its log.
    """
    deadline = time.monotonic() + (server.start_limit_s if limit_s is None else limit_s)
    while True:
        if running(server) is None:
            raise StartError(f"{server.name} ended instead of starting{_tail(server)}")
        try:
            server.check()
        except NotReady as reason:
            if time.monotonic() >= deadline:
                raise StartError(f"{server.name}: {reason}{_tail(server)}") from None
            time.sleep(POLL_S)
        else:
            break
    server.after_start()


def stop(server: Server) -> bool:
    """Stop a server and all it started; False when it did not run.

    SIGTERM first; SIGKILL when it has not ended within its limit.
    """
    process = running(server)
    if process is not None:
        process.stop(limit_s=server.stop_limit_s)
    server.pid_file.unlink(missing_ok=True)
    return process is not None


def kill(server: Server) -> bool:
    """End a server as a crash would; its pid file stays, as after one. False when it did not run."""
    process = running(server)
    return process is not None and process.kill()


def in_order(servers: Sequence[Server]) -> list[list[Server]]:
    """Groups to be started one after the other: each needs only servers of groups before it.

    What is needed but not among the servers is taken as there.
    """
    waiting = {server.name: server for server in servers}
    groups: list[list[Server]] = []
    while waiting:
        group = [server for server in waiting.values() if not server.needs & waiting.keys()]
        if not group:
            raise ValueError(f"servers need each other: {', '.join(waiting)}")
        groups.append(group)
        for server in group:
            del waiting[server.name]
    return groups


def log_tail(server: Server, lines: int) -> list[str]:
    """The last lines of a server's log."""
    try:
        with server.log.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - LOG_TAIL_BYTES))
            text = log.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-lines:] if lines else []


def _tail(server: Server) -> str:
    lines = log_tail(server, LOG_TAIL_LINES)
    shown = "\n".join(f"  {line}" for line in lines)
    return f"; its log {server.log} ends with\n{shown}" if lines else f"; its log is {server.log}"
