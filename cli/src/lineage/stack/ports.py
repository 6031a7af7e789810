"""Loopback ports for servers."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST = 15_000
"""Above what other programs listen on by habit."""


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now.

    They lie below the range that the system takes for outgoing connections: a port in it could be lost
    to a client while its server is down, even to a client of that server that tries to reconnect (TCP
    lets it connect to itself).
    """
    candidates = list(range(LOWEST, _first_outgoing()))
    random.SystemRandom().shuffle(candidates)
    ports: list[int] = []
    with ExitStack() as held:
        for port in candidates:
            if len(ports) == count:
                break
            listener = held.enter_context(socket.socket())
            if _bound(listener, port):
                ports.append(port)
    return ports


def is_free(port: int) -> bool:
    """Whether a server could listen on this port."""
    with socket.socket() as listener:
        return _bound(listener, port)


def _bound(listener: socket.socket, port: int) -> bool:
    # As servers do: what is left of connections that were closed does not count.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


def _first_outgoing() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        return max(int(text.split()[0]), LOWEST + 1_000)
    except (OSError, ValueError, IndexError):
        return 32_768
