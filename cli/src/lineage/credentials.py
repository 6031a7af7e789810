"""Tokens of servers: ``lineage login`` keeps them, readable by their owner alone."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from lineage_core.environment.private_files import ensure_private_folder
from lineage_service.local_servers import running_at
from lineage_store.errors import StoreError

TOKEN_VARIABLE = "LINEAGE_TOKEN"


def credentials_file() -> Path:
    """Where tokens are kept."""
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "lineage" / "credentials.json"


def token_for(url: str) -> str:
    """The token for a server: of one that runs here for this user, of the environment, or kept; else empty.

    Raises:
        StoreError: the file of tokens can't be read.
    """
    local = running_at(url)
    if local is not None:
        return local.token
    return os.environ.get(TOKEN_VARIABLE, "") or _read().get(url.rstrip("/"), "")


def keep(url: str, token: str) -> Path:
    """Keep a token (empty: forget it); the file it is kept in.

    Raises:
        StoreError: the file of tokens can't be read.
        OSError: it can't be written.
    """
    tokens = _read()
    tokens.pop(url.rstrip("/"), None)
    if token:
        tokens[url.rstrip("/")] = token
    file = credentials_file()
    ensure_private_folder(file.parent, ours=True)
    # A new file is its owner's alone from the first byte on.
    handle, temporary = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(tokens, out, indent=2)
    os.replace(temporary, file)
    return file


def _read() -> dict[str, str]:
    file = credentials_file()
    try:
        tokens = json.loads(file.read_text(encoding="utf-8"))
        return {str(url): str(token) for url, token in tokens.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(f"{file} can't be read: {error}; remove it and log in again") from error
