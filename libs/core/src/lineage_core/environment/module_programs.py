"""Modules run as programs of this Python, which import nothing from the working directory: others may write there."""

from __future__ import annotations

import os
import sys

_HAS_OPTION = sys.version_info >= (3, 11)
_RUN = (
    "import sys; del sys.path[0], sys.argv[0]; import runpy; runpy._run_module_as_main(sys.argv[0])"
)
"""What ``-P -m`` does since Python 3.11. Before it runs, Python imports nothing from the working directory."""


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs a module with some arguments."""
    if _HAS_OPTION:
        return [sys.executable, "-P", "-m", module, *words]
    return [sys.executable, "-c", _RUN, module, *words]


def has_safe_path() -> bool:
    """Whether `sys.path` began without the folder of the program, or the working directory, at its head."""
    if sys.version_info >= (3, 11):
        return sys.flags.safe_path
    return bool(sys.flags.isolated) or _RUN in sys.orig_argv


def programs_have_safe_path() -> bool:
    """Whether Python runs every program without its folder on the path, for the environment says so (since 3.11)."""
    return sys.version_info >= (3, 11) and bool(os.environ.get("PYTHONSAFEPATH"))
