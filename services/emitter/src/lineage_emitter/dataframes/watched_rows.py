"""Rows of DataFrames that are watched while the job runs.

Where the user allows it (``LINEAGE_WATCH_FRAMES``), a rule of the optimiser (``WatchedRows.java``) puts a filter above operators of the plans of
actions, which passes every row. It comes last, when Spark has decided what it pushes to the sources and which columns it reads. In the
executors the filter looks, for each 256 rows, at what is watched for; where nobody watches, a row costs one call.

Who watches leaves a condition in the watch folder as for RDDs (`lineage_store.watch_folder`), in SQL. The driver reads it by the grammar of
`lineage_query.conditions`, and writes what it understood to one file for all executors. There Spark's own parser and analyser make of it what
a plain filter would be. Rows that fulfil it are written to the folder by the task.

Of Python functions each call can be timed: the rule has them called through `lineage_emitter.worker.timed_function`. The time of tasks is Spark's own
(`lineage_emitter.dataframes.task_times`).

When the action has returned, an operator that somebody watched has a recipe of its own: the part of the plan that ran from it down. By
that, the rows are traced as those of any output.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from lineage_core.environment.private_files import private_opener
from lineage_emitter.dataframes import delta, iceberg
from lineage_emitter.dataframes.plan_text import (
    PASSING_CLASS,
    WATCHING_CLASS,
    class_files,
    compiled,
    install_rule,
)
from lineage_emitter.dataframes.task_times import TaskTimes
from lineage_emitter.failures import in_words
from lineage_query.conditions import ConditionError, parse_condition
from lineage_store.watch_folder import (
    FUNCTION,
    ROWS,
    WatchableNode,
    WatchRequest,
    held_conditions,
    read_request,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from lineage_core.recipe.document import Recipe
    from lineage_emitter.settings import Settings

logger = logging.getLogger(__name__)

WATCHED = "watched"
"""What nodes of rows that were watched do."""
ACTION = "lineage.watched.action"
"""Of the thread's jobs: the number of the action that runs, and its line of the program."""
ACTIONS_MAX = 256
"""That run or wait to be recorded."""
POLL_S = 0.1
NOT_TIMED = "of DataFrames, calls of Python functions are timed, and tasks (--latency): give a line of the program, or a function"


class WatchedRows:
    """Of one application. A failure costs watches, never the job or its lineage. Thread-safe.

    Args:
        sc: the SparkContext.
        settings: whether rows may be watched, and what may be shown of them.
        folder: by which the job is watched; None: it is not.
    """

    def __init__(self, sc: SparkContext, settings: Settings, folder: Path | None) -> None:
        self._sc = sc
        self._settings = settings
        self._folder = folder if settings.watch_frames else None
        self._lock = Lock()
        self._rule: Any = None
        self._times: TaskTimes | None = None
        self._numbers = count()
        self._ended = Event()
        self._thread: Thread | None = None
        self._held: list[str] | None = None
        """Names of the conditions that the executors' file has; None: there is no file yet."""
        self._requests = Requests()
        self._recipes: list[tuple[WatchableNode, Recipe]] = []
        self._recorded: set[str] = set()
        """Operators that have a recipe."""

    def install(self, spark: SparkSession, settings: Mapping[str, str] | None) -> None:
        """Have plans of a session that are made from now on be ready to be watched, where the user allows it.

        ``settings``: what is set in the session. Where it has tables of Delta Lake or Iceberg, whose rules look at plans, nothing is changed.
        """
        if self._folder is None or delta.is_used(settings) or iceberg.is_used(settings):
            return
        with self._lock:
            try:
                if self._rule is None:
                    self._rule = self._begin(self._folder)
                install_rule(spark, self._rule.rule())
            except Exception as problem:
                self._folder = None
                logger.warning("rows of DataFrames can't be watched: %s", in_words(problem))

    def _begin(self, folder: Path) -> Any:
        gateway: Any = self._sc._gateway
        java: Any = self._sc._jsc
        files = gateway.jvm.java.nio.file
        attributes = gateway.new_array(files.attribute.FileAttribute, 0)
        classes = compiled(WATCHING_CLASS)
        # Executors that begin later load it from the driver, so it is kept as long as Spark runs.
        home = files.Files.createTempDirectory("lineage-watch", attributes).toFile()
        home.deleteOnExit()
        jar = gateway.jvm.java.io.File(home, f"lineage-watch-{home.getName()}.jar")
        jar.deleteOnExit()
        classes.jar(class_files(PASSING_CLASS), jar.getPath())
        java.addJar(jar.getPath())
        # What hides parts of records are functions of Python, which can't be asked here.
        shows = self._settings.values and not (self._settings.redact or self._settings.rules)
        times = self._times = TaskTimes(self._sc, folder, ACTION, self._operators)
        reports = bytearray(times.reports)
        rule = classes.of(str(folder), reports, shows, self._settings.value_length)
        self._publish(folder)
        self._thread = Thread(target=self._run, args=(folder,), name="lineage-watch", daemon=True)
        self._thread.start()
        return rule

    def _operators(self, action: str) -> list[WatchableNode]:
        """Those of an action that can be watched."""
        if self._rule is None:
            return []
        lines = str(self._rule.operators(action)).splitlines()
        return [WatchableNode(*json.loads(line)) for line in lines]

    @contextmanager
    def running(self, call_site: str, is_action: bool = True) -> Iterator[str]:
        """The body runs an action: gives the name by which its operators are known; empty: they can't be watched."""
        if self._folder is None or not is_action:
            yield ""
            return
        name = str(next(self._numbers))
        if self._rule is not None:
            # What is watched for by now counts from the action's first row on.
            self._publish_guarded(self._folder)
            self._want()
        with self._lock:
            self._requests.begin(name)
        with self._property(f"{name}\u0001{call_site}"):
            yield name

    @contextmanager
    def pause(self) -> Iterator[None]:
        """In the body, plans are made that do not run."""
        if self._folder is None:
            yield
            return
        with self._property(None):
            yield

    @contextmanager
    def _property(self, value: str | None) -> Iterator[None]:
        before = None
        # The program may have stopped Spark.
        with suppress(Exception):
            before = self._sc.getLocalProperty(ACTION)
            self._sc.setLocalProperty(ACTION, value)  # type: ignore[arg-type]
        try:
            yield
        finally:
            with suppress(Exception):
                self._sc.setLocalProperty(ACTION, before)  # type: ignore[arg-type]

    def record(self, action: str, frame: DataFrame, recipe_of: Callable[[Any], Recipe]) -> None:
        """Make recipes of those operators of an action that were watched, until :meth:`take_recipes`.

        ``frame``: that it was called on. ``recipe_of``: gives the recipe of a plan.
        """
        if not action:
            return
        with self._lock:
            requests = self._requests.end(action)
        if self._rule is None:
            return
        with suppress(Exception):
            if requests:
                self._record(action, frame, requests, recipe_of)
            self._rule.release(action)

    def _record(
        self,
        action: str,
        frame: DataFrame,
        requests: Sequence[WatchRequest],
        recipe_of: Callable[[Any], Recipe],
    ) -> None:
        actions = [action]
        if not self._operators(action):
            # Its plan was made for an action before.
            plan = frame._jdf.queryExecution().optimizedPlan()
            actions = str(self._rule.actions(plan)).splitlines()
        for made_for in actions:
            for place, facts in enumerate(self._operators(made_for)):
                is_watched = any(_is_of_rows(request, facts) for request in requests)
                if facts.node in self._recorded or not is_watched:
                    continue
                try:
                    plan = self._rule.plan(made_for, place)
                    if plan is not None:
                        self._recipes.append((facts, recipe_of(plan)))
                        self._recorded.add(facts.node)
                except Exception as problem:
                    logger.info("no recipe of %s is kept: %s", facts.name, in_words(problem))

    def take_recipes(self) -> list[tuple[WatchableNode, Recipe]]:
        """What was recorded since the last call."""
        recipes, self._recipes = self._recipes, []
        return recipes

    def close(self) -> None:
        """Capture has ended: plans are left as they are."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._times is not None:
            with suppress(Exception):
                self._times.close(self._requests.held)
        self._folder = None
        if self._rule is not None:
            with suppress(Exception):
                self._rule.end()

    # -- what is watched for -----------------------------------------------------------------------

    def _run(self, folder: Path) -> None:
        while not self._ended.wait(POLL_S):
            self._publish_guarded(folder)
            # Without the lock, for which the program waits: what is held is replaced as a whole.
            if self._times is not None:
                with suppress(Exception):
                    self._times.publish(self._requests.held)

    def _want(self) -> None:
        """Have the time of tasks be taken from now on, where somebody watches it."""
        if self._times is not None:
            with suppress(Exception):
                self._times.want(self._requests.held)

    def _publish_guarded(self, folder: Path) -> None:
        with self._lock, suppress(OSError):
            self._publish(folder)

    def _publish(self, folder: Path) -> None:
        """Write for the executors which conditions count now, where others did before.

        Raises:
            OSError: the folder can't be read or written.
        """
        paths = held_conditions(folder)
        names = [path.stem for path in paths]
        if names == self._held:
            return
        entries, requests = list[dict[str, Any]](), dict[str, WatchRequest]()
        for path in paths:
            with suppress(FileNotFoundError):
                request = self._requests.held.get(path.stem) or read_request(path)
                if request is not None:
                    requests[path.stem] = request
                    # Executors' JVMs have no time to tell of tasks.
                    entries += [] if request.latency else [_entry(path.stem, request)]
        partial = folder / f"{ROWS}.partial"
        with open(partial, "w", encoding="utf-8", opener=private_opener) as file:
            json.dump(entries, file)
        partial.replace(folder / ROWS)
        self._held = names
        self._requests.hold(requests)


class Requests:
    """What is watched for now (``held``, by the name of the condition), and what was at some time while an action ran."""

    def __init__(self) -> None:
        self.held: dict[str, WatchRequest] = {}
        self._of_actions: dict[str, dict[str, WatchRequest]] = {}
        """By action that is not recorded yet."""

    def begin(self, action: str) -> None:
        """An action begins."""
        self._of_actions[action] = dict(self.held)
        if len(self._of_actions) > ACTIONS_MAX:
            # Of one that failed.
            self._of_actions.pop(next(iter(self._of_actions)))

    def hold(self, requests: dict[str, WatchRequest]) -> None:
        """These are watched for from now on, and no others."""
        self.held = requests
        for of_action in self._of_actions.values():
            of_action.update(requests)

    def end(self, action: str) -> list[WatchRequest]:
        """An action is recorded: what was watched for since it began."""
        return list(self._of_actions.pop(action, {}).values())


def _is_of_rows(request: WatchRequest, facts: WatchableNode) -> bool:
    """Whether rows of an operator are reported, or calls of a Python function."""
    return request.fits(facts) and request.is_timed == (facts.op == FUNCTION)


def _entry(name: str, request: WatchRequest) -> dict[str, Any]:
    """What executors read of a condition."""
    entry = {"id": name, "node": request.node, "must": request.must, "limit": request.limit}
    if request.is_timed:
        return entry | {"timed": True, "problem": NOT_TIMED}
    try:
        return entry | {"sql": parse_condition(request.condition).expression}
    except ConditionError as problem:
        return entry | {"problem": f"conditions on rows of DataFrames are of SQL: {problem}"}
