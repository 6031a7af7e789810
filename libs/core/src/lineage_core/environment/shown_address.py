"""Addresses of stores, servers and databases as messages repeat them."""

from __future__ import annotations

import re

from lineage_core.environment.redaction import REDACTED, without_secrets

_NAMES_FIRST = frozenset(["abfs", "abfss", "wasb", "wasbs"])
"""Schemes of Azure's storage, where a container stands before its account: CONTAINER@ACCOUNT."""
_PORT_AND_PATH = frozenset(["hdfs", "http", "https", "viewfs"])
"""Schemes with paths behind a port: elsewhere a number and a slash may as well begin a password."""
_HOST = re.compile(r"[^:/?#,]*(?:(?::\d{1,5})?,|(?P<path_port>:\d{1,5})?[/?#]).*", re.DOTALL)
"""What stands before an @ in a path, and is no login."""


def shown_address(address: str) -> str:
    """An address without the login, token or signature that somebody wrote into it.

    Args:
        address: As it was given: ``SCHEME://...``, ``jdbc:...``, or anything else; it may be none.

    Returns:
        The address with ``***`` in place of what is secret. A user is left beside a password that could be told from the rest.
    """
    head, scheme_end, rest = without_secrets(address).partition("://")
    login, at, place = rest.rpartition("@")
    # A file of this machine has no login, and any sign may be in its path.
    if not at or rest.startswith("/") or _is_plain(head.rpartition(":")[2], login):
        return f"{head}{scheme_end}{rest}"
    return f"{head}{scheme_end}{REDACTED}@{place}"


def _is_plain(scheme: str, login: str) -> bool:
    """Whether nothing is to be hidden any more before the last @."""
    host = None if "@" in login else _HOST.fullmatch(login)
    if host is not None:
        return scheme in _PORT_AND_PATH or not host["path_port"]
    user, _, password = login.partition(":")
    return password == REDACTED if password else scheme in _NAMES_FIRST and user == login
