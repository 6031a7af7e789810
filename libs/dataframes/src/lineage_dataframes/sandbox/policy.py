"""What the Spark that traces may do: which files it reads, whether it has the network, which variables it sees."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Literal

from lineage_core.environment.module_programs import has_safe_path
from lineage_dataframes.errors import NoSparkError
from lineage_dataframes.sandbox import kernel
from lineage_dataframes.sandbox.names import NETWORK, ROOTS, SANDBOX
from lineage_store.paths import split_scheme
from lineage_store.url import cache_folder

Mode = Literal["auto", "required", "off"]
_MODES: dict[str, Mode] = {"": "auto", "auto": "auto", "required": "required", "off": "off"}
_FLAGS = {"": False, "false": False, "true": True}

VARIABLES = [
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HOME",
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "KRB5_CONFIG",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "MALLOC_ARENA_MAX",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PATH",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_PYTHON",
    "PYTHONHASHSEED",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "PYTHONUTF8",
    "SPARK_CONF_DIR",
    "SPARK_CONNECT_MODE",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_HOME",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_LOCAL_HOSTNAME",
    "SPARK_LOCAL_IP",
    "SPARK_PREFER_IPV6",
    "SPARK_SCALA_VERSION",
    "SPARK_SUBMIT_OPTS",
    "TZ",
    "USER",
    "_JAVA_OPTIONS",
    "_PYSPARK_DRIVER_CONN_INFO_PATH",
]
"""Variables that Java, Spark and its Python workers need to start. They see no others."""
VARIABLE_PREFIXES = ["LC_"]
NETWORK_VARIABLE_PREFIXES = [
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "KRB5CCNAME",
    "NO_PROXY",
]
"""Beginnings of variables with which sources elsewhere are read; seen where the network is."""

_PROGRAMS = ("/bin", "/lib", "/lib32", "/lib64", "/sbin", "/usr", "/opt/java", "/nix/store")
_SYSTEM = (
    "/proc", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm", "/dev/random", "/dev/urandom", "/dev/zero",
    "/etc/alternatives", "/etc/ca-certificates", "/etc/gai.conf", "/etc/group", "/etc/hadoop", "/etc/host.conf",
    "/etc/hosts", "/etc/krb5.conf", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
    "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/java",
    "/etc/pki/tls/certs", "/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl/certs", "/etc/timezone",
)  # fmt: skip
_NOT_ROOTS = {"boot", "dev", "etc", "lost+found", "proc", "root", "run", "sys", "var"}
"""Folders of the machine, which are roots where nobody names any but for these."""

_LIST_SETTINGS = {
    "spark.jars": ",",
    "spark.files": ",",
    "spark.submit.pyFiles": ",",
    "spark.driver.extraClassPath": ":",
    "spark.driver.extraLibraryPath": ":",
}
"""Settings of Spark that name files which it reads when it starts, and what stands between these."""
_SUBMIT_OPTIONS = {
    "--jars": "spark.jars",
    "--files": "spark.files",
    "--py-files": "spark.submit.pyFiles",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-library-path": "spark.driver.extraLibraryPath",
    "--packages": "spark.jars.packages",
}
_NET_SINCE, _SIGNALS_SINCE = 4, 6
"""Versions of Landlock that know ports of TCP, and signals."""
NOT_LINUX = "no Linux: it has all rights of its user"
IVY, PACKAGES = "spark.jars.ivy", "spark.jars.packages"


@dataclass(frozen=True)
class SandboxSettings:
    """What the environment requests. ``roots``: folders whose files may be read; None: see `default_roots`."""

    mode: Mode
    network: bool
    roots: tuple[str, ...] | None

    @classmethod
    def of(cls, environment: Mapping[str, str], roots: Sequence[str] | None) -> SandboxSettings:
        """Read it. ``roots``: those of whoever starts Spark, if there are any; local ones count.

        Raises:
            NoSparkError: a setting has no value of its kind.
        """
        mode = _MODES.get(environment.get(SANDBOX, "").lower())
        if mode is None:
            raise NoSparkError(f"{SANDBOX} is off, auto or required")
        if mode == "off":
            return cls(mode, network=True, roots=None)
        network = _FLAGS.get(environment.get(NETWORK, "").lower())
        if network is None:
            raise NoSparkError(f"{NETWORK} is true or false")
        setting_roots = [
            root.strip() for root in environment.get(ROOTS, "").split(",") if root.strip()
        ]
        if roots is None and not setting_roots:
            return cls(mode, network, None)
        schemes_and_paths = [
            split_scheme(os.path.expanduser(root)) for root in (*(roots or ()), *setting_roots)
        ]
        return cls(
            mode,
            network,
            tuple(os.path.abspath(rest) for kind, rest in schemes_and_paths if kind == "file"),
        )

    def lacks(self, master: str) -> tuple[str, ...]:
        """What of it a Spark of this master does not get here; it says so in words."""
        if self.mode == "off":
            return ()
        if not runs_in_process(master):
            return ("it runs elsewhere, where nothing here confines it",)
        if sys.platform != "linux":
            return (NOT_LINUX,)
        return tuple(
            _missing_restrictions(kernel.landlock_abi(), kernel.has_seccomp(), network=self.network)
        )


def runs_in_process(master: str) -> bool:
    """Whether the Spark of a master runs in a Java that is started here."""
    return master == "local" or master.startswith("local[")


def _missing_restrictions(abi: int, seccomp: bool, *, network: bool) -> Iterable[str]:
    if not abi:
        yield "no Landlock: it reads and writes all files that this user may"
    elif abi < _SIGNALS_SINCE:
        yield "an old Landlock: it may send signals to this user's processes"
    if not network and abi < _NET_SINCE:
        yield "no Landlock for the network: it may connect to any address by TCP"
    if not seccomp:
        yield "no seccomp, or not known for this kind of machine: calls of the kernel and kinds of sockets are not restricted"


@dataclass(frozen=True)
class Policy:
    """What is allowed, as `kernel.confine` reads it: files, ports of TCP, variables of the environment.

    ``landlock``: the version to use, 0 for none. ``set``: variables that it is given.
    """

    landlock: int
    seccomp: bool
    network: bool
    read: tuple[str, ...]
    execute: tuple[str, ...]
    write: tuple[str, ...]
    ports: tuple[int, ...]
    variables: tuple[str, ...]
    prefixes: tuple[str, ...]
    set: dict[str, str]

    def reads(self, path: str) -> bool:
        """Whether a file or folder may be read."""
        if not self.landlock:
            return True
        real = Path(os.path.realpath(path))
        return any(folder in self._places for folder in (real, *real.parents))

    @cached_property
    def _places(self) -> frozenset[Path]:
        places = (*self.read, *self.execute, *self.write)
        return frozenset(Path(os.path.realpath(folder)) for folder in places)


def program_folders() -> list[str]:
    """Folders of what is run and loaded: the system's, Java's, Spark's and Python's."""
    java = java_home()
    folders = [*_PROGRAMS, sys.prefix, sys.base_prefix, sys.exec_prefix, spark_home()]
    folders += [java] if java else []
    return [os.path.realpath(path) for path in folders]


def system_files() -> list[str]:
    """Files of the system and of Java, Spark and Python that are read when they start; no secrets are among them."""
    etc = Path("/etc")
    paths = [*_SYSTEM, *(str(path) for path in etc.glob("java*"))]
    # Of this project's packages, installed or not: workers load their daemon from there.
    paths.append(str(Path(__file__).parents[2]))
    paths += _module_folders()
    paths += _local_paths(os.environ.get("SPARK_DIST_CLASSPATH", ""), ":")
    paths += [
        os.environ[name] for name in ("HADOOP_HOME", "HADOOP_CONF_DIR") if os.environ.get(name)
    ]
    paths.append(_conf_dir())
    for name, value in spark_settings():
        if name in _LIST_SETTINGS:
            paths += _local_paths(value, _LIST_SETTINGS[name])
    return [os.path.abspath(path) for path in paths]


def _module_folders() -> Iterator[str]:
    """Folders that Python loads modules from, but for that of the program, which may hold anything.

    Workers load from there what functions import, also packages of the user's, and of checkouts.
    """
    yield from _local_paths(os.environ.get("PYTHONPATH", ""), os.pathsep)
    homes = {Path.home(), *Path.home().parents}
    # Also where Python was started without it, as `lineage run` does, and the program was run by its path.
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    own = {os.getcwd(), os.path.dirname(os.path.realpath(main)) if main else ""}
    for folder in sys.path if has_safe_path() else sys.path[1:]:
        if (
            os.path.isabs(folder)
            and Path(folder) not in homes
            and os.path.realpath(folder) not in own
        ):
            yield folder


def default_roots() -> list[str]:
    """Where nobody names roots: folders of the machine, and what is not hidden in the user's home.

    Logins, keys and tokens lie in hidden files of the home, and in the system's folders.
    """
    home = os.path.realpath(Path.home())
    homes = [home, *_entries("/home")]
    inner = {"/", *map(str, Path(home).parents), "/home", *homes}
    top = [folder for folder in _entries("/") if folder.removeprefix("/") not in _NOT_ROOTS]
    below = [path for folder in sorted(inner - {"/"}) for path in _entries(folder)]
    # Rows that a job kept which was run in the home.
    stored_rows = str(Path(home, ".lineage", "rows"))
    return [folder for folder in (*top, *below, stored_rows, "/var/tmp") if folder not in inner]


def ivy_folder() -> tuple[str, bool] | None:
    """Where packages that Spark's settings name are kept, and whether these say so; None: they name none."""
    settings = dict(spark_settings())
    if PACKAGES not in settings:
        return None
    folder = settings.get(IVY)
    return (folder, True) if folder else (str(cache_folder() / "ivy"), False)


def spark_settings() -> Iterator[tuple[str, str]]:
    """Settings of Spark's defaults, and of what it is started with."""
    with suppress(OSError, UnicodeDecodeError):
        text = Path(_conf_dir(), "spark-defaults.conf").read_text(encoding="utf-8")
        for line in text.splitlines():
            name, _, value = line.strip().replace("=", " ", 1).partition(" ")
            if name and not name.startswith("#"):
                yield name, value.strip()
    with suppress(ValueError):
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
        for word, value in pairwise(words):
            if word in _SUBMIT_OPTIONS:
                yield _SUBMIT_OPTIONS[word], value
            elif word in {"--conf", "-c"}:
                name, _, rest = value.partition("=")
                yield name, rest


def _entries(folder: str) -> list[str]:
    """What is in a folder and not hidden. What a link leads to is there by its own name, or is not."""
    with suppress(OSError):
        entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
        return [path.path for path in entries if not path.is_symlink()]
    return []


def _local_paths(text: str, separator: str) -> Iterable[str]:
    for item in text.split(separator):
        kind, rest = split_scheme(item.strip().removeprefix("local:"))
        if rest and kind == "file":
            # Of a class path: all jars of a folder.
            yield rest.removesuffix("/*")


def java_home() -> str:
    """The folder of the Java that Spark runs in; empty: there is none."""
    program = shutil.which("java")
    on_path = "" if program is None else str(Path(program).resolve().parents[1])
    return os.environ.get("JAVA_HOME") or on_path


def spark_home() -> str:
    """The folder of the Spark that is started."""
    spec = find_spec("pyspark")
    own = "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)
    return os.environ.get("SPARK_HOME") or own


def _conf_dir() -> str:
    return os.environ.get("SPARK_CONF_DIR") or str(Path(spark_home(), "conf"))
