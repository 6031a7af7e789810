"""A job over tables that ran with lineage in a folder of its own, and what traces say of it afterwards."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lineage_core.recipe.document import Recipe
from lineage_query.outputs import output_state, writes_to
from lineage_query.rows.reader import RowReader
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged, run_captured, run_program
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE, table_jars


class Ran:
    """The job's folder after it ran; ``answers``: what was asked then, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = {"SPARK_CONF_DIR": str(folder / "conf")}
        self.answers: dict[str, Any] = {}

    def run(self, job: str, jar: str, conf: str) -> None:
        """Run a job of this folder; ``jar``, ``conf``: as of :meth:`prepare`."""
        self.prepare(jar, conf)
        shutil.copy(HERE / job, self.folder)
        done = run_captured(self.folder, job, env=self.conf)
        assert done.returncode == 0, done.stderr

    def prepare(self, jar: str, conf: str) -> None:
        """Write Spark's settings.

        ``jar``: how the names of the jars begin that it needs. ``conf``: settings of Spark, ``{home}`` being the job's folder.
        """
        jars = ",".join(map(str, sorted(table_jars().glob(f"{jar}*.jar"))))
        told = f"{SMALL_SPARK}spark.jars {jars}\n{conf.format(home=self.folder)}"
        (self.folder / "conf").mkdir()
        (self.folder / "conf" / "spark-defaults.conf").write_text(told)

    def ask(self, questions: dict[str, tuple[str, str | None, str]]) -> None:
        """Questions by name: a place, a condition, which way."""
        (self.folder / "questions.json").write_text(json.dumps(list(questions.values())))
        command = [sys.executable, str(HERE / "ask.py"), f"sqlite:///{self.folder / STORE}"]
        done = run_program(self.folder, command, self.conf)
        assert done.returncode == 0, done.stderr
        said = json.loads((self.folder / "answers.json").read_text())
        self.answers = dict(zip(questions, said, strict=True))

    def gaps(self, name: str, *without: str) -> tuple[str, ...]:
        """What is in a table now that no known write left, though some versions of it were not noted."""
        with open_store(f"sqlite:///{self.folder / STORE}") as store:
            writes = writes_to(store, RowReader(), name, store.application_ids())
        tables = [one.table for one in writes if one.table is not None]
        assert tables
        forgotten = [
            replace(one, table=replace(one.table, version=None))
            if one.table is not None and one.table.version in without
            else one
            for one in writes
        ]
        return output_state(RowReader(), name, forgotten).gaps

    def batch_recipes(self) -> list[Recipe]:
        """Those of batches of streams, in order."""
        with open_store(f"sqlite:///{self.folder / STORE}") as store:
            (app,) = store.application_ids()
            graph = store.graph(app)
            texts = [graph.recipe(node.node) for node in graph.nodes()]
        found = [Recipe.from_json(text) for text in texts if text is not None]
        return [recipe for recipe in found if recipe.batch is not None]

    def unknown(self) -> str:
        """What the verdict names that has no lineage, a line each."""
        with open_store(f"sqlite:///{self.folder / STORE}") as store:
            (app,) = store.application_ids()
        return "\n".join(judged(self.folder, app).unknown)

    def ids(self, name: str) -> list[int]:
        """The ids that stand where the answer says, in the very files."""
        answer = self.answers[name]
        assert "error" not in answer, answer
        assert not answer["reasons"]
        found = []
        for place, text in answer["rows"]:
            path, _, row = place.rpartition("#")
            there = pq.read_table(path, partitioning=None).slice(int(row), 1).to_pylist()
            assert there == [json.loads(text)]
            found.append(there[0]["id"])
        return sorted(found)
