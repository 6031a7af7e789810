"""Servers of this user on this machine: where they listen, and the token that lets in.

Each writes a file of its own (mode 600, in a folder of mode 700) and holds a lock on it as long as it runs. A token is
only ever read from a locked file, so a process that listens on the port of an ended server gets no token.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lineage_core.environment.private_files import ensure_private_folder

_ADDRESSES = {"127.0.0.1": ("127.0.0.1",), "::1": ("::1",), "localhost": ("127.0.0.1", "::1")}
"""Of names of this machine: a token goes to the very address that its server listens on."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that runs. ``store``: whose lineage it serves."""

    url: str
    token: str
    store: str = ""

    @property
    def page(self) -> str:
        """The address to open in a browser; it holds the token, where there is one."""
        return f"{self.url}/?token={self.token}" if self.token else self.url


def servers_folder() -> Path:
    """The folder of the files that describe this user's running servers."""
    state = os.environ.get("XDG_STATE_HOME", "") or str(Path.home() / ".local" / "state")
    return Path(state) / "lineage" / "servers"


@contextmanager
def announced(server: LocalServer) -> Iterator[Path]:
    """Let commands of this user find a server for as long as it runs; the file that they find.

    Raises:
        OSError: the file can't be written.
    """
    address = urlsplit(server.url)
    file = _file(address.hostname or "", address.port or 0)
    ensure_private_folder(file.parent, ours=True)
    # The file is locked and complete before others can find it. A new file of mkstemp has mode 600.
    descriptor, draft = tempfile.mkstemp(dir=file.parent, suffix=".new")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps(asdict(server)).encode())
        os.replace(draft, file)
        yield file
    finally:
        # Another server may have taken the port since, and replaced the file.
        if _is_at(file, descriptor):
            file.unlink()
            file.with_suffix(".html").unlink(missing_ok=True)
        Path(draft).unlink(missing_ok=True)
        os.close(descriptor)


def running_at(url: str) -> LocalServer | None:
    """The server of this user that listens at an address; None where there is none."""
    try:
        address = urlsplit(url)
        host, port = address.hostname or "", address.port or 80
    except ValueError:
        return None
    if address.scheme != "http":
        return None
    announcements = (_running(_file(name, port)) for name in _ADDRESSES.get(host, ()))
    return next((server for server in announcements if server is not None), None)


def leading_page(server: LocalServer) -> str:
    """The address of a private file that leads a browser to the page of a server.

    A browser is started with the address on its command line, which all users of the machine can read: this address
    holds no token. The file stays until the next one is written, as there is no sign that the browser has read it.

    Raises:
        OSError: the file can't be written.
    """
    address = urlsplit(server.url)
    file = _file(address.hostname or "", address.port or 0).with_suffix(".html")
    ensure_private_folder(file.parent, ours=True)
    descriptor, draft = tempfile.mkstemp(dir=file.parent, suffix=".new")
    with os.fdopen(descriptor, "w", encoding="utf-8") as page:
        # Addresses and tokens hold no sign that means something in HTML.
        page.write(f'<meta http-equiv="refresh" content="0; url={server.page}">\n')
    os.replace(draft, file)
    return file.as_uri()


def _file(host: str, port: int) -> Path:
    # Home folders may be shared by machines.
    machine = re.sub(r"[^A-Za-z0-9.-]", "_", platform.node())
    return servers_folder() / f"{machine}-{host.replace(':', '_')}-{port}.json"


def _running(file: Path) -> LocalServer | None:
    try:
        with file.open("rb") as record:
            status = os.fstat(record.fileno())
            is_private = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
            if not is_private or not _is_locked(record.fileno()):
                return None
            return LocalServer(**json.load(record))
    except (OSError, ValueError, TypeError):
        return None


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
