"""Asks a service for /healthz, /readyz or /metrics."""

from __future__ import annotations

import urllib.error
import urllib.request

from lineage.stack.ports import LOOPBACK


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and body; status 0: it does not answer."""
    # No proxy of the environment stands before this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{LOOPBACK}:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""
