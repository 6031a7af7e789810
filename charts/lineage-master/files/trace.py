"""What `helm test` runs: an event goes to Kafka, and its trace is read back from the query API.

The emitter's settings (LINEAGE_KAFKA ...) come from the environment; TEST_URL is the query API's address,
TEST_TOKEN_FILE holds a token for it, TEST_WAIT_S bounds the whole.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lineage_emitter import LineageApi

SOURCES = [f"orders.csv, line {line}" for line in (1, 2, 3)]
TOTAL = "totals.csv, line 1"
PAUSE_S = 0.5


def tell() -> str:
    """Send an application with one total that was made from three orders; its id."""
    with LineageApi("helm test") as api:
        api.register("totals", "total per customer", kind="sink")
        with api.task("totals"):
            for line, source in enumerate(SOURCES, start=1):
                api.capture(f"order {line}", source, TOTAL)
        return api.app


class NotYetError(Exception):
    """The query API does not have the answer yet; says what it said."""


def ask(path: str, body: object = None, method: str | None = None) -> Any:
    """An answer of the query API.

    Raises:
        NotYetError: ask again.
        SystemExit: it refuses.
    """
    token = Path(os.environ["TEST_TOKEN_FILE"]).read_text(encoding="ascii").strip()
    request = urllib.request.Request(
        os.environ["TEST_URL"] + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        said = (
            f"{method or 'asked for'} {path}: {error.code} {error.read().decode(errors='replace')}"
        )
        if error.code in {404, 429, 503}:
            raise NotYetError(said) from None
        raise SystemExit(said) from None
    except OSError as error:
        raise NotYetError(f"{request.full_url} does not answer: {error}") from None


def verdict_of(app: str) -> None:
    """Whether all of an application's lineage is stored.

    Raises:
        NotYetError: it is not.
    """
    verdict = ask(f"/v1/applications/{app}/completeness")
    if not verdict["complete"]:
        raise NotYetError(f"{app} is not complete: {json.dumps(verdict)}")


def trace(app: str) -> None:
    """Trace the total back.

    Raises:
        SystemExit: it leads elsewhere than to the orders.
    """
    body = {"direction": "backward", "start": {"places": [TOTAL]}}
    answer = ask(f"/v1/applications/{app}/traces", body)
    # Texts are null for a token without the right to read rows.
    texts = [item["text"] or "" for group in answer["groups"] for item in group["items"]]
    if not answer["exact"] or sorted(texts) not in (SOURCES, [""] * len(SOURCES)):
        raise SystemExit(f"{TOTAL!r} does not trace to {SOURCES}: {json.dumps(answer)}")


def patiently(step: Callable[[str], object], app: str, deadline: float) -> None:
    """Do a step again until it works.

    Raises:
        SystemExit: it did not in time.
    """
    while True:
        try:
            step(app)
        except NotYetError as reason:
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"not in time: {reason}. Look at the logs of linker and writer, and at their /readyz"
                ) from None
            time.sleep(PAUSE_S)
        else:
            return


def main() -> int:
    """Send, wait, trace, and remove what was sent."""
    began = time.monotonic()
    deadline = began + float(os.environ["TEST_WAIT_S"])
    app = tell()
    print(f"sent {app} to Kafka at {os.environ['LINEAGE_KAFKA']}")
    patiently(verdict_of, app, deadline)
    patiently(trace, app, deadline)
    took = time.monotonic() - began
    try:
        ask(f"/v1/applications/{app}", method="DELETE")
    except NotYetError as reason:
        print(f"{app} may be left in the store (lineage rm {app}): {reason}")
    print(f"{TOTAL!r} traces to its {len(SOURCES)} sources, {took:.1f} s after it was sent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
