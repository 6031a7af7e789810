"""Confines this process by Landlock and seccomp, then becomes another program: python -I -S kernel.py POLICY PROGRAM [WORD ...].

What is confined stays confined, and so does whatever it starts. It needs nothing but Python's own library, so that it runs
before any package can be imported.

Landlock decides which files may be read, run and written, which ports of TCP may be listened on and connected to, and that
no process outside gets a signal or can be looked into. Seccomp refuses other sockets, and calls that change the system,
read the memory of other processes, or change what Landlock does not look at (modes, owners and times of files).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterable
from typing import Any

# -- Landlock ---------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK, _REFER, _TRUNCATE, _IOCTL_DEV = (1 << bit for bit in (6, 11, 13, 14, 15))
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_READ = _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""Rights that a rule for a file, and not for a folder, may have."""
_NET_SINCE, _SCOPED_SINCE = 4, 6
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Rights that versions of Landlock know; later ones know 16."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_CAPABILITIES_3 = 0x20080522


def landlock_abi() -> int:
    """The version of Landlock that this kernel has; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION)))


def restrict_files(
    abi: int,
    readable: Iterable[str],
    executable: Iterable[str],
    writable: Iterable[str],
    ports: Iterable[int] | None,
) -> None:
    """Leave this process these files and folders, with all below; those that are not there are left out.

    ``executable``: may be read, too; ``writable``: all of it. ``ports``: of TCP, that may be listened on and connected to, beside
    free ones to listen on; None: all.

    Raises:
        OSError: the kernel refuses.
    """
    supported_rights = (1 << _FS_BITS.get(abi, 16)) - 1
    net = _BIND_TCP | _CONNECT_TCP if abi >= _NET_SINCE and ports is not None else 0
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if abi >= _SCOPED_SINCE else 0
    size = 24 if abi >= _SCOPED_SINCE else 16 if abi >= _NET_SINCE else 8
    rules = _system_call(
        _CREATE_RULESET, struct.pack("QQQ", supported_rights, net, scoped)[:size], size, 0
    )
    try:
        for paths, rights in (
            (readable, _READ),
            (executable, _READ | _EXECUTE),
            (writable, supported_rights & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK)),
        ):
            for path in paths:
                _allow_path(rules, path, rights & supported_rights)
        if net:
            for port in ports or ():
                _allow_port(rules, port, _BIND_TCP | _CONNECT_TCP)
            # Port 0 to the kernel: any that is free.
            _allow_port(rules, 0, _BIND_TCP)
        _no_new_rights()
        _system_call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow_path(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as problem:
        if problem.errno in {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP}:
            return
        raise
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        _system_call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _allow_port(rules: int, port: int, rights: int) -> None:
    _system_call(_ADD_RULE, rules, _NET_PORT, struct.pack("=QQ", rights, port), 0)


def _no_new_rights() -> None:
    """Nothing that is run gets more rights than it has: set-user-ID programs are as any other."""
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _os_error("prctl")


def drop_capabilities() -> None:
    """Leave this process, and whatever it runs, no rights of the system's user beside those of files.

    Some are asked before Landlock is: who may measure others' performance reads their environment.

    Raises:
        OSError: the kernel refuses.
    """
    number = 0
    # From the first one on that this kernel does not know there are no more.
    while not _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0):
        number += 1
    if not number and ctypes.get_errno() != errno.EPERM:
        raise _os_error("prctl")
    if _LIBC.capset(struct.pack("Ii", _CAPABILITIES_3, 0), bytes(24)):
        raise _os_error("capset")


def _system_call(number: int, *arguments: Any) -> int:
    result = int(_LIBC.syscall(number, *arguments))
    if result < 0:
        raise _os_error(f"call {number}")
    return result


def _os_error(operation: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{operation}: {os.strerror(code)}")


# -- seccomp ----------------------------------------------------------------------------------

_MACHINE_NAME, _CONVENTION, _SECCOMP = "x86_64", 0xC000003E, 317
"""The one kind of machine whose numbers of calls have been tried; how the kernel names its convention."""

_CALLS: dict[str, int] = {
    # Other processes' memory, files and limits.
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "process_madvise": 440,
    "kcmp": 312,
    "pidfd_getfd": 438,
    "perf_event_open": 298,
    "shmget": 29,
    "shmat": 30,
    "msgget": 68,
    "semget": 64,
    "mq_open": 240,
    # Keys, and ways past these very filters.
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_by_handle_at": 304,
    "name_to_handle_at": 303,
    "fanotify_init": 300,
    # The system.
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "unshare": 272,
    "setns": 308,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "reboot": 169,
    "swapon": 167,
    "swapoff": 168,
    "acct": 163,
    "quotactl": 179,
    "settimeofday": 164,
    "clock_settime": 227,
    "adjtimex": 159,
    "clock_adjtime": 305,
    "sethostname": 170,
    "setdomainname": 171,
    "syslog": 103,
    "iopl": 172,
    "ioperm": 173,
    # What Landlock lets everybody change of files that they can't open, or open to read alone.
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "fchownat": 260,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "setxattrat": 463,
    "removexattrat": 466,
    "file_setattr": 469,
    "utime": 132,
    "utimes": 235,
    "futimesat": 261,
}
"""Calls that are refused."""

_CHMOD: dict[str, int] = {
    "chmod": 90,
    "fchmod": 91,
    "fchmodat": 268,
    "fchmodat2": 452,
}
"""Calls that do nothing and say that they did: Hadoop gives up where it can't set the mode of what it writes."""

_STARTING: dict[str, int] = {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322}
_THREAD = 0x10000
_SOCKET, _SOCKETPAIR, _CONNECT = 41, 53, 42
_LISTENING: dict[str, int] = {"bind": 49, "listen": 50, "accept": 43, "accept4": 288}
_SENDTO, _SENDMSG, _SENDMMSG = 44, 46, 307
_CLONE, _CLONE3, _IOCTL, _PRLIMIT, _UTIMENSAT = 56, 435, 16, 302, 280

_NAMESPACES = 0x7E020000
_AF_INET, _AF_INET6, _STREAM, _DATAGRAM = 2, 10, 1, 2
_KIND = 0xF
"""The part of a socket's type that is no flag."""
_TCP, _UDP = 6, 17
_FAST_OPEN = 0x20000000
"""A flag that connects while it sends."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""They type for whoever sits at the terminal."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _MACHINE = 0, 4
_X32 = 0x40000000
_SET_FILTER = 1
_SECCOMP_ACTION = 2

Instruction = tuple[int, int, int, int]


def has_seccomp() -> bool:
    """Whether this kernel filters calls of this kind of machine."""
    if sys.platform != "linux" or platform.machine() != _MACHINE_NAME:
        return False
    action = ctypes.c_uint32(_ERROR)
    return not _LIBC.syscall(_SECCOMP, _SECCOMP_ACTION, 0, ctypes.byref(action))


def restrict_calls(*, network: bool) -> None:
    """Refuse calls of this process that it has no need of. ``network``: it may have connections, by TCP and UDP.

    Raises:
        OSError: the kernel refuses.
    """
    body = [*_refuse_calls(_CALLS, errno.EPERM), *_refuse_calls(_CHMOD, 0)]
    families = [_AF_INET, _AF_INET6]
    kinds = {_STREAM: _TCP, _DATAGRAM: _UDP} if network else {_STREAM: _TCP}
    body += _if_call(_SOCKET, _allow_sockets(families, kinds))
    # Of datagrams one could be sent to any socket that has a path.
    body += _if_call(_SOCKETPAIR, [*_argument(1, _KIND), *_unless_equal(_STREAM)])
    if not network:
        # A datagram, or a first one that connects, has an address.
        to = [*_upper_half(4), *_unless_equal(0), *_argument(4), *_unless_equal(0)]
        body += _if_call(_SENDTO, [*to, *_argument(3), *_if_any(_FAST_OPEN)])
        body += _if_call(_SENDMSG, [*_argument(2), *_if_any(_FAST_OPEN)])
        body += _if_call(_SENDMMSG, [*_argument(3), *_if_any(_FAST_OPEN)])
    body += _if_call(_CLONE, [*_argument(0), *_if_any(_NAMESPACES)])
    # Its flags are in memory, where no filter sees them; libraries then call `clone`.
    body += _if_call(_CLONE3, [(_RETURN, 0, 0, _ERROR | errno.ENOSYS)])
    body += _if_call(_IOCTL, [*_argument(1), *_if_equal(_TIOCSTI), *_if_equal(_TIOCLINUX)])
    body += _if_call(_PRLIMIT, [*_argument(0), *_unless_equal(0)])
    # Without a path it is about a file that is open.
    body += _if_call(
        _UTIMENSAT,
        [*_upper_half(1), *_unless_equal(0), *_argument(1), *_unless_equal(0)],
    )
    _install_filter(body)


def refuse_connections() -> None:
    """Refuse this process, which may be confined already, whatever connects it to others.

    Raises:
        OSError: the kernel refuses.
    """
    _install_filter(_if_call(_CONNECT, [(_RETURN, 0, 0, _ERROR | errno.EACCES)]))


def refuse_listening() -> None:
    """Refuse this process, which may be confined already, to wait for others that connect to it.

    Raises:
        OSError: the kernel refuses.
    """
    _install_filter(_refuse_calls(_LISTENING, errno.EACCES))


def refuse_processes() -> None:
    """Refuse this process to start others, or to become another program; it may have threads.

    Raises:
        OSError: the kernel refuses.
    """
    body = _refuse_calls(_STARTING, errno.EPERM)
    is_thread = (_ANY_BIT, 1, 0, _THREAD)
    body += _if_call(_CLONE, [*_argument(0), is_thread, (_RETURN, 0, 0, _ERROR | errno.EPERM)])
    _install_filter(body)


def _refuse_calls(calls: dict[str, int], code: int) -> list[Instruction]:
    return [instruction for number in calls.values() for instruction in _if_equal(number, code)]


def _if_call(number: int, checks: list[Instruction]) -> list[Instruction]:
    """Checks of the arguments of one call. The accumulator holds the call's number before and after."""
    body = [*checks, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(body), number), *body]


def _allow_sockets(families: list[int], kinds: dict[int, int]) -> list[Instruction]:
    """Let a socket of one of the families and kinds, and of the protocol that is the kind's, pass."""
    family_checks = [(_EQUAL, len(families) - n, 0, family) for n, family in enumerate(families)]
    checks = [*_argument(0), *family_checks, (_RETURN, 0, 0, _ERROR | errno.EACCES)]
    for kind, protocol in kinds.items():
        protocol_checks = [
            *_argument(2),
            (_EQUAL, 1, 0, 0),
            (_EQUAL, 0, 1, protocol),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERROR | errno.EACCES),
        ]
        checks += [*_argument(1, _KIND), (_EQUAL, 0, len(protocol_checks), kind), *protocol_checks]
    return [*checks, (_RETURN, 0, 0, _ERROR | errno.EACCES)]


def _argument(argument_number: int, mask: int = 0) -> list[Instruction]:
    """Load the lower half of an argument."""
    load: Instruction = (_LOAD, 0, 0, 16 + 8 * argument_number)
    return [load, (_AND, 0, 0, mask)] if mask else [load]


def _upper_half(argument_number: int) -> list[Instruction]:
    return [(_LOAD, 0, 0, 20 + 8 * argument_number)]


def _if_equal(value: int, code: int = errno.EPERM) -> list[Instruction]:
    return [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ERROR | code)]


def _unless_equal(value: int) -> list[Instruction]:
    return [(_EQUAL, 1, 0, value), (_RETURN, 0, 0, _ERROR | errno.EACCES)]


def _if_any(bits: int) -> list[Instruction]:
    return [(_ANY_BIT, 0, 1, bits), (_RETURN, 0, 0, _ERROR | errno.EACCES)]


def _install_filter(body: list[Instruction]) -> None:
    """Let what the instructions don't refuse pass, of calls of this kind of machine; others are its end."""
    program = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, _CONVENTION),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        *body,
        (_RETURN, 0, 0, _ALLOW),
    ]
    buffer = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    )
    filter_program = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    _no_new_rights()
    _system_call(_SECCOMP, _SET_FILTER, 0, filter_program)


# -- the program ------------------------------------------------------------------------------


def confine(policy: dict[str, Any]) -> None:
    """Confine this process. ``policy``: what `lineage_dataframes.sandbox.policy.Policy` says.

    Raises:
        OSError: the kernel refuses.
    """
    # Modes of files can't be changed later on.
    os.umask(0o077)
    drop_capabilities()
    if policy["landlock"]:
        ports = None if policy["network"] else policy["ports"]
        restrict_files(
            policy["landlock"], policy["read"], policy["execute"], policy["write"], ports
        )
    if policy["seccomp"]:
        restrict_calls(network=policy["network"])


def main(file: str, words: list[str]) -> None:
    """Become a program that is confined, with the variables of the environment that the policy names.

    Raises:
        OSError: the kernel refuses, or the program can't be run.
    """
    with open(file, encoding="utf-8") as opened:
        policy = json.load(opened)
    names, prefixes = set(policy["variables"]), tuple(policy["prefixes"])
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith(prefixes)
    }
    environment.update(policy["set"])
    options = environment.get("SPARK_SUBMIT_OPTS", "")
    environment["SPARK_SUBMIT_OPTS"] = f"{options} {policy['java_options']}".strip()
    # Where PySpark waits for the ports of its Java.
    connection_file = environment.get("_PYSPARK_DRIVER_CONN_INFO_PATH")
    if connection_file:
        policy["write"].append(os.path.dirname(connection_file))
    confine(policy)
    os.execve(words[0], words, environment)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except OSError as problem:
        sys.exit(f"the Spark that traces can't be confined: {problem}")
