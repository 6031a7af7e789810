"""Files and folders for their user alone, whatever the umask.

What a job captures may be personal data, so nothing of it is readable by others: folders have mode 700, files 600.
A folder is shared by its own mode: where its group may write and it has the setgid bit
(``chmod g+ws``, or a Kubernetes volume with ``fsGroup``), files and folders made in it belong to that group (2770 and 660).
Executors that run as another user then need no setting of their own. See ADR 14.
"""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

PRIVATE_NAME = ".lineage"
"""The folder of the embedded default: of its user alone, also where it lies in a folder of a group."""
PRIVATE_MODE = 0o700
GROUP_MODE = 0o2770
_SHARING = stat.S_ISGID | stat.S_IWGRP
_QUOTED = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})
_log = logging.getLogger("lineage.files")


class ForeignOwnerError(PermissionError):
    """A file or folder that another user owns, who could read or change its content."""


def ensure_private_folder(folder: Path, *, ours: bool = False) -> Path:
    """Create a folder (and missing ones above it) for this user alone, or use an existing one.

    ``ours``: only this program stores files there, so its mode is restricted if it is not. ``.lineage`` always is.

    Raises:
        ForeignOwnerError: another user owns it.
        OSError: it can't be made.
    """
    for missing in reversed(_missing_folders(folder)):
        # Another thread or process may create it first: then it is checked like any existing one.
        with suppress(FileExistsError):
            create_private_folder(missing)
    status = folder.stat()
    _check_owner(folder, status)
    if ours or folder.name == PRIVATE_NAME:
        _tighten(folder, status, _mode_below(folder.parent, folder.name))
    elif folder.parent.name == PRIVATE_NAME:
        ensure_private_folder(folder.parent)
    return folder


def folder_named(root: Path, name: str) -> Path:
    """The folder right below another that is called by a name, whatever that is: one that could lead elsewhere is quoted."""
    if name in {"", ".", ".."}:
        return root / (name.replace(".", "%2E") or "%")
    return root / name.translate(_QUOTED)


def private_opener(path: str, flags: int) -> int:
    """For ``open(..., opener=private_opener)``: a file that is made is private from its first byte on.

    Raises:
        OSError: it can't be opened.
    """
    mode = _mode_below(Path(path).parent) & 0o666
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    _set_mode(descriptor, mode)
    return descriptor


def ensure_private_file(path: Path) -> None:
    """Create an empty file for this user alone; if it exists, check its owner.

    Raises:
        ForeignOwnerError: another user owns it.
        OSError: it can't be made.
    """
    with suppress(FileExistsError):
        os.close(private_opener(str(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    _check_owner(path, path.stat())


def restrict_mode(path: Path) -> None:
    """Make the mode of a file that is ours tight, where it is not."""
    with suppress(FileNotFoundError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            _tighten(path, status, _mode_below(path.parent) & 0o666)


def _missing_folders(folder: Path) -> list[Path]:
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def create_private_folder(folder: Path) -> None:
    """Make one folder for this user alone.

    Raises:
        FileExistsError: it exists.
        OSError: it can't be made.
    """
    folder.mkdir(mode=PRIVATE_MODE)
    mode = _mode_below(folder.parent, folder.name)
    # Made for this user alone first: it is never wider than it ends up to be, whatever the umask.
    if stat.S_IMODE(folder.stat().st_mode) != mode:
        folder.chmod(mode)


def _mode_below(parent: Path, name: str = "") -> int:
    """The mode of a folder in ``parent``; of a file the same, without the bits of folders."""
    if name == PRIVATE_NAME:
        return PRIVATE_MODE
    return GROUP_MODE if is_shared(parent.stat()) else PRIVATE_MODE


def is_shared(status: os.stat_result) -> bool:
    """Whether a folder is given to a group on purpose, of which this process is."""
    is_group_folder = status.st_mode & _SHARING == _SHARING
    return is_group_folder and status.st_gid in {os.getegid(), *os.getgroups()}


def _check_owner(path: Path, status: os.stat_result) -> None:
    # Root has all rights anyway, and may have to read files of other users.
    if status.st_uid in (os.geteuid(), 0) or os.geteuid() == 0:
        return
    shared = status if stat.S_ISDIR(status.st_mode) else path.parent.stat()
    if path.name != PRIVATE_NAME and is_shared(shared):
        return
    raise ForeignOwnerError(
        f"{path} belongs to another user (uid {status.st_uid}), who could read or change what is kept there: "
        "name a place of your own, or one that is shared with a group on purpose (chmod g+ws FOLDER)"
    )


def _tighten(path: Path, status: os.stat_result, mode_max: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    # The setgid bit gives no rights, and may come from the folder above.
    if status.st_uid != os.geteuid() or not mode & ~(mode_max | stat.S_ISGID):
        return
    # A file system that is read-only, or has no modes, is accepted.
    with suppress(OSError):
        path.chmod(mode & (mode_max | stat.S_ISGID))
        _log.warning("%s was open to other users (mode %o): it is closed to them now", path, mode)


def _set_mode(descriptor: int, mode: int) -> None:
    status = os.fstat(descriptor)
    is_ours = status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode)
    if is_ours and stat.S_IMODE(status.st_mode) != mode:
        with suppress(OSError):
            os.fchmod(descriptor, mode)
