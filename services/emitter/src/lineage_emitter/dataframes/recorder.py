"""Records what actions on DataFrames did, in a thread of its own: the program waits for none of it.

An action's plan does not change any more, so its recipe may be made when the action has returned.
Each recorded action is a node of kind ``frame``, each source that it read one of kind ``frame-source``.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_core.contract.message import (
    RECIPE_BYTES_MAX,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_core.contract.times import time_text
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.recipe.names import DELTA_LOG, KAFKA, TEXT_FORMATS
from lineage_core.recipe.plan import OpaqueNode
from lineage_emitter import scope
from lineage_emitter.dataframes import jdbc, topics
from lineage_emitter.dataframes.watched_rows import WATCHED
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.failures import error_type, in_words
from lineage_emitter.sdk.checksums import Checksums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lineage_core.contract.message import Message
    from lineage_core.recipe.document import Failure, Output, Recipe, Source
    from lineage_emitter.dataframes.outputs import Target
    from lineage_emitter.session.nodes import Node
    from lineage_emitter.session.session import Session
    from lineage_store.dataset_paths import UnfiledDataset

logger = logging.getLogger(__name__)

WAITING_MAX = 64
"""Actions that wait to be recorded: each holds its plan. Beyond, the program waits for the thread."""
CLOSE_S = 120.0
"""How long the end of an application waits for what is still to be recorded."""
LINK_EVERY_S = 1.0
"""How often, at most, what was recorded is made durable and linked while the program runs."""
TIMES_RECORDED = 1_000
SOURCES_MAX = 10_000
"""Sources of which equal ones that are read later are the same node."""
NOT_IN_TIME = f"its plan was not recorded within {CLOSE_S:g} s of the end of capture"
UNDER_WAY = "it was under way when capture ended"


@dataclass(frozen=True, slots=True)
class ReturnedAction:
    """An action that has returned.

    ``recipe``: makes its recipe. ``node``: its name in the graph. ``operator``: the program's call. ``began_at``, ``returned_at``: in unix
    seconds; it did not begin sooner and did not return later. ``on_unknown``: called, on another thread, where what it did can't be traced.
    """

    node: str
    operator: scope.Operator
    recipe: Callable[[str], Recipe]
    began_at: float
    returned_at: float
    failed: bool = False
    on_unknown: Callable[[], None] | None = None


class RecipeRecorder:
    """Takes actions in the order in which they returned. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = threading.Condition()
        """Guards what follows, and is notified of each change of it."""
        self._under_way: dict[int, scope.Operator] = {}
        """Actions that have not returned, by identity: programs may run some at once."""
        self._too_late: list[scope.Operator] = []
        """Actions that returned while capture ended."""
        self._waiting: deque[ReturnedAction] = deque()
        self._added_count = 0
        self._recorded_count = 0
        self._closed = False
        self._stopped = False
        self._working = threading.Lock()
        """Held while an action is being recorded."""
        self._thread: threading.Thread | None = None
        self._sources: dict[object, Node] = {}
        """Nodes of the latest sources."""
        self._source_count = 0
        self._set_aside_recipes: set[bytes] = set()
        self._set_aside_nodes: dict[int, Node] = {}
        """The first node of what each function left out."""
        self._set_aside_counts: dict[int, int] = {}
        self._checksums = Checksums()
        self.seconds: deque[float] = deque(maxlen=TIMES_RECORDED)
        """How long the latest took to record, each."""

    @contextlib.contextmanager
    def running_action(self, running: scope.Operator) -> Iterator[None]:
        """The body runs an action. Where capture ends before it is recorded, the verdict names it."""
        with self._changed:
            self._under_way[id(running)] = running
        try:
            yield
        finally:
            with self._changed:
                self._under_way.pop(id(running), None)

    def add(self, action: ReturnedAction) -> None:
        """Record an action soon; behind the end nothing is taken (see :meth:`close`)."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < WAITING_MAX)
            source_node = self._under_way.pop(id(action.operator), None)
            if self._closed:
                # Behind the end it was named as one under way.
                self._too_late += [action.operator] if source_node is not None else []
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="lineage-frames", daemon=True
                )
                self._thread.start()
            self._waiting.append(action)
            self._added_count += 1
            self._changed.notify_all()

    def record_failed_write(
        self, action_name: str, target: Target | None, problem: Exception
    ) -> bool:
        """A write to a table of a database or to a topic failed: what its tasks had written by then may be there.

        False: the target is another one, and nothing is recorded.
        """
        dataset = None if target is None else _unfiled(target)
        if target is None or dataset is None:
            return False
        words = (
            f"the action failed: {error_type(problem)}; what it had written by then may be there"
        )
        with contextlib.suppress(CaptureFailedError):
            node = self._session.nodes.unknown(action_name, words, ())
            if node is not None:
                message = _dataset_written(
                    self._session.app, node.name, dataset, target.began_at, ""
                )
                self._session.problems.guard(
                    "note a failed write", lambda: self._session.api.send(message)
                )
        return True

    def wait_until_recorded(self, timeout_s: float = CLOSE_S) -> bool:
        """Wait until all that has returned so far is recorded; False: it took too long."""
        if threading.current_thread() is self._thread:
            return True
        with self._changed:
            goal = self._added_count
            in_time = self._changed.wait_for(lambda: self._recorded_count >= goal, timeout_s)
        if not in_time:
            logger.warning("DataFrame work was not all recorded within %s s", timeout_s)
        return in_time

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """In the body actions return, and none is recorded."""
        with self._working:
            yield

    def close(self) -> None:
        """Record what is left, and name what can't be recorded in time; nothing more is accepted."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.wait_until_recorded(CLOSE_S)
        with self._changed:
            self._stopped = True
            lost = [(action.operator, NOT_IN_TIME) for action in self._waiting]
            others = [*self._too_late, *self._under_way.values()]
            lost += [(running, UNDER_WAY) for running in others]
            self._waiting.clear()
            self._changed.notify_all()
        for running, reason in lost:
            with scope.resumed(running), contextlib.suppress(CaptureFailedError):
                self._session.nodes.unknown(running.name, reason, ())

    def _run(self) -> None:
        linked_at, is_behind = 0.0, False
        while True:
            action = self._next(LINK_EVERY_S if is_behind else None)
            if action is not None:
                is_behind = True
                with self._working, scope.resumed(action.operator), scope.suspended():
                    began = time.perf_counter()
                    is_known = self._record_guarded(action)
                    self.seconds.append(time.perf_counter() - began)
                if not is_known and action.on_unknown is not None:
                    action.on_unknown()
            with self._changed:
                if action is not None and self._waiting and self._waiting[0] is action:
                    self._waiting.popleft()
                    self._recorded_count += 1
                    self._changed.notify_all()
                if self._stopped:
                    return
                is_idle = not self._waiting
            if is_behind and is_idle:
                # Each is out of this process at once; the disk and the store see some together.
                durably = time.monotonic() - linked_at >= LINK_EVERY_S
                with contextlib.suppress(CaptureFailedError):
                    self._session.commits.push(durably=durably)
                if durably:
                    linked_at, is_behind = time.monotonic(), False

    def _next(self, timeout_s: float | None) -> ReturnedAction | None:
        """The action that is to be recorded next, which goes on waiting until it is; None: time is up, or all is over."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._stopped, timeout_s)
            return self._waiting[0] if self._waiting else None

    def _record_guarded(self, action: ReturnedAction) -> bool:
        """Record an action. Returns whether it is recorded, with nothing that is not known."""
        is_known = False

        def record() -> None:
            nonlocal is_known
            is_known = self._record(action)

        # Where it is to fail the job, the program's next action raises: see Session.check.
        with contextlib.suppress(CaptureFailedError):
            self._session.problems.guard("note a DataFrame", record)
        return is_known

    def _record(self, action: ReturnedAction) -> bool:
        action_name = action.operator.name
        try:
            recipe = action.recipe(action.operator.call_site)
            set_aside = self._session.set_aside.take_recipes()
            unguarded = self._session.set_aside.take_unguarded()
            watched = self._session.watched_rows.take_recipes()
            text = recipe.to_json()
            size = len(text.encode("utf-8", "surrogatepass"))
            if size > RECIPE_BYTES_MAX:
                raise ValueError(f"its recipe has {size:,} bytes")
        except Exception as problem:
            self._session.set_aside.take_recipes()
            self._session.watched_rows.take_recipes()
            if action.failed:
                # That it failed is recorded, and its plan may be what is wrong.
                logger.info("the plan of %s, which failed, is not kept: %s", action_name, problem)
                return False
            self._session.nodes.unknown(
                action_name, f"its plan could not be recorded: {in_words(problem)}", ()
            )
            return False
        with self._changed:
            # The end has named it: it may have been written by now.
            if self._stopped:
                return False
        failure = recipe.output.failure
        if failure is None:
            is_known = self._send(action, recipe, text)
        else:
            self._send_failed(action, failure, text, unguarded)
            is_known = False
        for function, name, rows in set_aside:
            self._send_set_aside(action, function, name, rows)
        for facts, rows in watched:
            # A failure costs what was watched, and not the lineage of the action.
            try:
                self._send_rows(action, facts.name, WATCHED, facts.node, rows)
            except Exception as problem:
                logger.info("no recipe of %s is kept: %s", facts.name, in_words(problem))
        return is_known

    def _send(self, action: ReturnedAction, recipe: Recipe, text: str) -> bool:
        """Returns whether nothing of it is unknown."""
        session, output = self._session, recipe.output
        action_name = action.operator.name
        # A stream may run for months: its batches have descriptions in the place of names of their own.
        is_batch = recipe.batch is not None
        parents = [self._source(action, source, is_batch) for source in recipe.reads()]
        words, blind = _opaque(recipe)
        node = session.nodes.register_as(
            action.node,
            action_name,
            "unknown" if blind else "frame",
            action_name,
            parents,
            exact=not words,
            reason=words,
            path=output.path or output.table,
            alias=None if is_batch else _alias(output, action_name),
            description="" if recipe.batch is None else recipe.batch.text,
        )
        session.api.recipe(node.name, text)
        if output.files:
            session.api.send(_output_files(session.app, node.name, output, self._checksums))
        elif output.commits:
            session.api.send(_output_log(session.app, node.name, output))
        dataset = _unfiled(output)
        if dataset is not None:
            version = _version(output, action.began_at)
            message = _dataset_written(session.app, node.name, dataset, action.began_at, version)
            session.api.send(message)
        if blind:
            session.nodes.unknown(action_name, words)
        return not blind

    def _send_failed(
        self, action: ReturnedAction, failure: Failure, text: str, unguarded: str
    ) -> None:
        """A node for the recipe alone: it has no rows, and nothing reads from it. ``unguarded``: which functions set no rows aside, and why; empty: none are known."""
        action_name, reason = action.operator.name, f"the action failed: {failure.type}"
        if unguarded:
            reason = f"{reason}; {unguarded}"
            logger.warning("%s failed with %s; %s", action_name, failure.type, unguarded)
        node = self._session.nodes.register_as(
            *(action.node, action_name, "unknown", action_name),
            exact=False,
            reason=reason,
            alias="failed",
        )
        self._session.api.recipe(node.name, text)

    def _send_set_aside(
        self, action: ReturnedAction, function: int, name: str, recipe: Recipe
    ) -> None:
        """A node for the rows that a function left out; the first one of a function has the number of its records."""
        session = self._session
        digest = hashlib.sha256(recipe.to_json().encode("utf-8", "surrogatepass")).digest()
        if digest not in self._set_aside_recipes:
            self._set_aside_recipes.add(digest)
            node = self._send_rows(action, name, QUARANTINE, QUARANTINE, recipe)
            self._set_aside_nodes.setdefault(function, node)
        node, records = self._set_aside_nodes[function], session.set_aside.records(function)
        if records > self._set_aside_counts.get(function, 0):
            self._set_aside_counts[function] = records
            # As of a task that has set them aside: the verdict counts the largest number.
            fields = {"node": node.name, "partition": 0, "attempt": records}
            counted = {"node": node.name, "records": records}
            session.api.committed(fields | {"set_aside": [counted]})

    def _send_rows(
        self, action: ReturnedAction, name: str, op: str, alias: str, recipe: Recipe
    ) -> Node:
        """A node for rows within an action, with their recipe."""
        session, text = self._session, recipe.to_json()
        words, blind = _opaque(recipe)
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > RECIPE_BYTES_MAX:
            words, blind = f"the recipe of its rows has {size:,} bytes", True
        node = session.nodes.register_as(
            session.nodes.next_id(),
            f"{name} of {action.operator.name}",
            "unknown" if blind else "frame",
            op,
            [self._source(action, source, False) for source in recipe.reads()],
            exact=not words,
            reason=words,
            alias=alias,
        )
        if size <= RECIPE_BYTES_MAX:
            session.api.recipe(node.name, text)
        return node

    def _source(self, action: ReturnedAction, source: Source, is_batch: bool) -> Node:
        """The node of a source: one for all outputs that read the same, as it was."""
        # What is read of the files is the recipe's; that they are the same files is the graph's.
        key = source.format, source.paths, source.table, source.version, source.files
        source_node = self._sources.get(key)
        if source_node is None:
            stored = self._session.stored_rows.of(source)
            name = source.format if stored is None else stored.what
            alias = "read" if stored is None else "rows"
            source_node = self._session.nodes.register_as(
                f"{action.node}.{self._source_count}",
                name,
                "frame-source",
                name,
                [] if stored is None or stored.node is None else [stored.node],
                path=source.name,
                alias=None if is_batch else alias,
            )
            self._source_count += 1
            self._sources[key] = source_node
            if len(self._sources) > SOURCES_MAX:
                self._sources.pop(next(iter(self._sources)))
            if source.files:
                read = _source_splits(self._session.app, source_node.name, source, self._checksums)
                self._session.api.send(read)
        dataset = _unfiled(source)
        if dataset is not None:
            read_at = action.returned_at
            message = _dataset_read(
                self._session.app, source_node.name, dataset, read_at, _version(source, read_at)
            )
            self._session.api.send(message)
        return source_node


def _alias(output: Output, action_name: str) -> str:
    return "write" if output.kind != "driver" else action_name.rpartition(".")[2]


def _opaque(recipe: Recipe) -> tuple[str, bool]:
    """What the recipe can't say, in words, and whether no trace can go through it."""
    blind = [f"{node.name}: {node.why}" for node in recipe.plan if isinstance(node, OpaqueNode)]
    words = "; ".join(dict.fromkeys(blind or recipe.opaque()))[:500]
    if blind:
        return f"its rows can't be traced through {words}", True
    return words and f"computed by what the recipe can't say: {words}", False


def _output_files(app: str, node: str, output: Output, checksums: Checksums) -> Message:
    """The files of an output; those of text are distinguished, as their rows are lines."""
    files = tuple(
        SinkFile(
            partition=number,
            path=file.path,
            size=file.size,
            mtime=file.mtime / 1000,
            rows=file.rows,
            checksum=checksums.of(file, output.format),
        )
        for number, file in enumerate(output.files)
    )
    path = output.path or ""
    if output.format in TEXT_FORMATS:
        return SinkFiles(app=app, node=node, path=path, files=files)
    version = output.version or ""
    return RecordFiles(app=app, node=node, path=path, files=files, version=version)


def _output_log(app: str, node: str, output: Output) -> Message:
    """The log of a table, of which it is not known which commit is the write's: who may have written a version is found by it."""
    log = SinkFile(partition=0, path=f"{output.path}/{DELTA_LOG}", size=0, mtime=time.time())
    return RecordFiles(app=app, node=node, path=output.path or "", files=(log,))


def _unfiled(used: Source | Output | Target) -> UnfiledDataset | None:
    """The table of a database, or the topic, that is read or written; None: it is neither."""
    return jdbc.dataset(used.format, used.options) or topics.dataset(used.format, used.options)


def _version(used: Source | Output, at: float) -> str:
    """Of a topic its offsets, of a table of a database the time."""
    return used.version or "" if used.format == KAFKA else time_text(at)


def _dataset_written(
    app: str, node: str, dataset: UnfiledDataset, began_at: float, version: str
) -> Message:
    """A dataset without files, at the time when a write to it began: rows were not there sooner."""
    file = SinkFile(partition=0, path=dataset.path, size=0, mtime=began_at)
    return RecordFiles(app=app, node=node, path=dataset.path, files=(file,), version=version)


def _dataset_read(
    app: str, node: str, dataset: UnfiledDataset, returned_at: float, version: str
) -> Message:
    """A dataset without files, at the time when a read of it had ended: rows that came later were not read."""
    split = RecordSplit(
        partition=0, path=dataset.path, start=0, length=0, file_size=0, mtime=returned_at
    )
    return RecordSplits(app=app, node=node, whole=False, splits=(split,), version=version)


def _source_splits(app: str, node: str, source: Source, checksums: Checksums) -> Message:
    """The files of a source, each as one split."""
    if source.format in TEXT_FORMATS:
        return Splits(app=app, node=node, splits=tuple(_splits(Split, source, checksums)))
    splits = tuple(_splits(RecordSplit, source, checksums))
    version = source.version or ""
    return RecordSplits(app=app, node=node, whole=False, splits=splits, version=version)


def _splits(kind: type[Any], source: Source, checksums: Checksums) -> Iterable[Any]:
    for number, file in enumerate(source.files):
        yield kind(
            partition=number,
            path=file.path,
            start=0,
            length=file.size,
            file_size=file.size,
            mtime=file.mtime / 1000,
            checksum=checksums.of(file, source.format),
        )
