"""``lineage stack up`` and ``down``: bring a stack's servers up, and take them down again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lineage.stack import state as states
from lineage.stack import supervisor
from lineage.stack.assembly import (
    known_names,
    needed_names,
    new_ports,
    servers_of,
    spool_folder,
)
from lineage.stack.errors import StackError, StackFolderError
from lineage.stack.ports import free_ports, is_free
from lineage.stack.server import Say, Server
from lineage.stack.state import StackOptions, StackState
from lineage_core.environment.private_files import ensure_private_folder


def up(folder: Path, names: Sequence[str], options: Mapping[str, Any], say: Say) -> list[Server]:
    """Start what does not run, and wait until all is ready.

    Args:
        folder: the stack's own; made when it is missing.
        names: servers to start, with what they need; none: all.
        options: fields of `StackOptions` to change.
        say: called with each step of the progress.

    Returns:
        The requested servers.

    Raises:
        StackError: one can't be started; servers that run keep running.
    """
    _make(folder)
    with states.locked(folder, say):
        before = states.load(folder)
        requested = needed_names(names or known_names())
        state = _with_options(before or StackState(), options)
        if before is not None and state.options.partitions != before.options.partitions:
            raise StackError(
                f"the topics have {before.options.partitions} partitions, and records would change their "
                "order with more or fewer: `lineage stack down --purge` first"
            )
        state = state.model_copy(
            update={"servers": state.servers | requested, "ports": {**new_ports(), **state.ports}}
        )
        state = _off_taken_ports(folder, state, requested, say)
        states.save(folder, state)
        servers = servers_of(folder, state, requested)
        for group in supervisor.in_order(servers):
            _start(group, say, changed=before is not None and before.options != state.options)
    return servers


def down(folder: Path, names: Sequence[str], *, purge: bool, say: Say) -> None:
    """Stop servers, and with ``purge`` remove their data: all of the folder when no names are given.

    Raises:
        StackError: there is no stack, or a name is unknown.
    """
    state = required_state(folder)
    with states.locked(folder, say):
        servers = servers_of(folder, state, chosen(state, names))
        for server in reversed(servers):
            process = supervisor.running(server)
            if process is not None:
                say(f"{server.name}: stopping")
            supervisor.stop(server)
            if process is not None:
                say(f"{server.name}: stopped")
            if purge and server.folder.exists():
                shutil.rmtree(server.folder)
        if not purge:
            return
        if names:
            remaining = state.servers - {server.name for server in servers}
            states.save(folder, state.model_copy(update={"servers": remaining}))
        else:
            _purge(folder)


def required_state(folder: Path) -> StackState:
    """The stack's state.

    Raises:
        FolderError: there is no stack.
    """
    state = states.load(folder)
    if state is None:
        raise StackFolderError(f"there is no stack in {folder}: `lineage stack up` starts one")
    return state


def chosen(state: StackState, names: Iterable[str]) -> frozenset[str]:
    """The named servers, or all of the stack.

    Raises:
        StackError: a name is not of this stack.
    """
    named = frozenset(names)
    unknown = sorted(named - state.servers)
    if unknown:
        raise StackError(
            f"no server of this stack is called {unknown[0]!r}; there are "
            f"{', '.join(sorted(state.servers))}"
        )
    return named or state.servers


def _make(folder: Path) -> None:
    if folder.exists() and states.is_foreign(folder):
        raise StackFolderError(f"{folder} holds something else than a stack; name another by --dir")
    # The stored data may be personal: no other user may read it.
    ensure_private_folder(folder, ours=True)


def _with_options(state: StackState, options: Mapping[str, Any]) -> StackState:
    changes = {name: value for name, value in options.items() if value is not None}
    try:
        checked = StackOptions.model_validate({**state.options.model_dump(), **changes})
    except ValidationError as error:
        wrong = "; ".join(
            f"{problem['loc'][0]} {problem['input']!r}: {problem['msg']}"
            for problem in error.errors()
        )
        raise StackError(f"{wrong} (sizes are like 512m or 2g)") from None
    return state.model_copy(update={"options": checked})


def _off_taken_ports(
    folder: Path, state: StackState, requested: frozenset[str], say: Say
) -> StackState:
    """Give servers that are to start other ports where another program listens now."""
    moved: dict[str, int] = {}
    for server in servers_of(folder, state, requested):
        if supervisor.running(server) is not None:
            continue
        for use, port in server.ports.items():
            if not is_free(port):
                (moved[use],) = free_ports(1)
                say(
                    f"{server.name}: port {port} is taken by another program, now {moved[use]}; "
                    "read `lineage stack env` again"
                )
    if moved:
        # Running services still use the old port.
        for server in servers_of(folder, state, state.servers):
            if server.needs & moved.keys():
                supervisor.stop(server)
    return state.model_copy(update={"ports": {**state.ports, **moved}})


def _start(group: Sequence[Server], say: Say, *, changed: bool) -> None:
    began = time.monotonic()
    fresh: set[str] = set()
    for server in group:
        if supervisor.running(server) is not None:
            later = "; options count from its next start" if changed else ""
            say(f"{server.name}: runs already{later}")
            continue
        say(f"{server.name}: starting")
        supervisor.start(server, say)
        fresh.add(server.name)
    for server in group:
        supervisor.wait_ready(server)
        if server.name in fresh:
            took = time.monotonic() - began
            say(f"{server.name}: ready on {server.address} ({took:.1f} s)")


def _purge(folder: Path) -> None:
    if spool_folder(folder).exists():
        shutil.rmtree(spool_folder(folder))
    states.forget(folder)
    # The folder of the default path is ours too, unless a store lies there.
    folders = [folder, folder.parent] if folder.parent.name == ".lineage" else [folder]
    for path in folders:
        if not any(path.iterdir()):
            path.rmdir()
