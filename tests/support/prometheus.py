"""A Prometheus for tests: on loopback, with its data in a folder of its own."""

from __future__ import annotations

import json
import math
import shutil
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from lineage.stack import supervisor
from lineage.stack.ports import LOOPBACK, free_ports
from lineage.stack.server import NotReady, Say, Server, silent
from tests.support.probing import asked

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / ".tools" / "prometheus" / "usr" / "bin"
"""Where scripts/servers.sh puts what is not on the path."""
SCRAPED_EVERY = "2s"
"""Also the longest that an answer may take."""


def program(name: str) -> str:
    """``prometheus`` or ``promtool``."""
    found = shutil.which(name) or shutil.which(name, path=UNPACKED)
    assert found, f"there is no {name}: scripts/servers.sh ensure"
    return found


class Prometheus(Server):
    """Scrapes ``targets`` (ports by job), and evaluates rules all the time."""

    def __init__(self, folder: Path, targets: Mapping[str, int], rules: Sequence[Path]) -> None:
        super().__init__("prometheus", folder, free_ports(1)[0])
        self._targets = targets
        self._rules = rules

    def prepare(self, say: Say = silent) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {
            "global": {"scrape_interval": SCRAPED_EVERY, "evaluation_interval": SCRAPED_EVERY},
            "rule_files": [str(path) for path in self._rules],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [f"{LOOPBACK}:{port}"]}]}
                for job, port in self._targets.items()
            ],
        }
        self._config.write_text(yaml.safe_dump(config), encoding="utf-8")

    def command(self) -> list[str]:
        return [
            program("prometheus"),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self.port}",
        ]

    def check(self) -> None:
        status, text = asked(self.port, "/-/ready")
        if status != 200:
            raise NotReady(f"prometheus: {text}")

    @property
    def _config(self) -> Path:
        return self.folder / "prometheus.yml"

    def get(self, path: str, **parameters: str) -> Any:
        """What its HTTP API answers; an error of a query fails the test."""
        status, text = asked(self.port, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        assert status == 200, f"{parameters}: {text}"
        return json.loads(text)["data"]

    def query(self, expression: str) -> list[float]:
        """Values of all series of an expression as it is now, without those that are no number."""
        found = self.get("query", query=expression)
        assert found["resultType"] == "vector", expression
        values = (float(one["value"][1]) for one in found["result"])
        return [value for value in values if not math.isnan(value)]

    def metrics(self) -> set[str]:
        """Names of all metrics that it has."""
        return set(self.get("label/__name__/values"))


@contextmanager
def prometheus(
    folder: Path, targets: Mapping[str, int], rules: Sequence[Path]
) -> Iterator[Prometheus]:
    """One that is ready."""
    made = Prometheus(folder, targets, rules)
    supervisor.start(made)
    try:
        supervisor.wait_ready(made)
        yield made
    finally:
        supervisor.stop(made)
