"""The scan of the locks finds what a database knows, and calls nothing clean that it could not look up."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts import audit

LOCK = (
    "jinja2==3.1.2 \\\n    --hash=sha256:"
    + "0a" * 32
    + "\nsix==1.16.0 \\\n    --hash=sha256:"
    + "0b" * 32
    + "\n"
)
NOBODY = "http://127.0.0.1:9/v1/query"

pytestmark = pytest.mark.security


@contextmanager
def database(answer: bytes) -> Iterator[str]:
    """OSV's, which knows one vulnerability of jinja2."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = answer if asked["package"]["name"] == "jinja2" else b"{}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


KNOWN = json.dumps({"vulns": [{
    "id": "GHSA-0000", "summary": "a way out of the sandbox",
    "affected": [{"package": {"name": "jinja2", "ecosystem": "PyPI"},
                  "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "3.1.3"}]}]}],
}]}).encode()  # fmt: skip


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Its answers are kept otherwise.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "requirements.lock"
    file.write_text(LOCK, encoding="utf-8")
    return file


def test_what_a_database_knows_of_a_pin_is_found(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(KNOWN) as url:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", url)
        assert audit.in_python(lock) == ["jinja2 3.1.2: GHSA-0000, mended in 3.1.3"]
        assert audit.in_python(lock, ["--ignore-vuln", "GHSA-0000"]) == []


def test_a_database_that_does_not_answer_makes_nothing_clean(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_AUDIT_OSV_URL", NOBODY)
    with pytest.raises(audit.NotScannedError):
        audit.in_python(lock)
    with database(b"<html>") as url:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", url)
        with pytest.raises(audit.NotScannedError):
            audit.in_python(lock)


def test_a_lock_without_hashes_is_not_scanned_as_if_it_were_installed(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.write_text("jinja2==3.1.2\n", encoding="utf-8")
    with database(b"{}") as url:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", url)
        with pytest.raises(audit.NotScannedError):
            audit.in_python(lock)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ('{"vulnerabilities": {"vite": {"severity": "high"}}}', ["vite: high"]),
        ('{"vulnerabilities": {}}', []),
        ('{"message": "405 Method Not Allowed", "error": {}}', None),
        ("", None),
        ("[]", None),
    ],
)
def test_what_npm_tells_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, found: list[str] | None
) -> None:
    (tmp_path / "scripts").mkdir()
    program = tmp_path / "scripts/node.sh"
    program.write_text(f"#!/bin/sh\necho '{told}'\nexit 1\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    if found is None:
        with pytest.raises(audit.NotScannedError):
            audit.in_page(tmp_path)
    else:
        assert audit.in_page(tmp_path) == found


def test_what_was_not_scanned_fails_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(*_given: object) -> list[str]:
        raise audit.NotScannedError("no such host")

    monkeypatch.setattr(audit, "in_page", unknown)
    monkeypatch.setattr(audit, "in_python", unknown)
    for words, status in (([], 0), (["--required"], 1)):
        monkeypatch.setattr(sys, "argv", ["audit.py", *words])
        assert audit.main() == status
        said = capsys.readouterr().out
        reason = "not scanned: no database of vulnerabilities answers (no such host)"
        # Of each lock, and that of the page.
        assert said.count(reason) == len(audit.LOCKS) + 1
