"""Looks for what an erasure left: by trace and by reading. What could not be looked at is said, and is never clean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lineage_core.contract.message import Begin
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TimeUpError, current_budget
from lineage_query.engine import QueryEngine
from lineage_query.erasure.erased_texts import keys_of_rows
from lineage_query.erasure.file_search import FileSearch
from lineage_query.erasure.finding import SubjectQuery, matching_rows
from lineage_query.erasure.journal import begun_with, steps_in
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.known_values import known_values
from lineage_query.erasure.own_remains import OwnRemains
from lineage_query.erasure.own_texts import SubjectTexts
from lineage_query.erasure.plan import Plan, condition_of
from lineage_query.erasure.reached import CELLS, check_is_row, path_of_place
from lineage_query.erasure.renamed_files import RenamedFiles, is_current
from lineage_query.erasure.source_files import files_with_rows, passed_over_in
from lineage_query.erasure.steps import ErasureError, identifying_columns
from lineage_query.erasure.stream_states import queries_with_state
from lineage_query.erasure.tables import deleted_files, is_of_table
from lineage_query.erasure.verified import Verified
from lineage_query.rows.reader import RowReader
from lineage_query.verdicts import verdict_of
from lineage_store.errors import StoreUnavailableError
from lineage_store.paths import Spellings, canonical, is_at_or_below, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FILE_MESSAGES, FileQuery, file_versions

SOURCE_KINDS = ("source", "frame-source")


@dataclass
class Verifying:
    """One verification. ``make``: makes the plan as it is now."""

    document: Mapping[str, Any]
    query: SubjectQuery
    store: GraphStore
    reader: RowReader
    engine: QueryEngine
    place: StorePlace
    make: Callable[[], Plan]

    def verify(self) -> Verified:
        """Look at everything.

        Raises:
            ErasureError: the query is not the plan's: nothing would be found of whom the plan is about.
            BudgetError: it takes longer than the query may.
            StoreUnavailableError: the store does not answer.
        """
        self._result = Verified(self.document["digest"])
        self._renamed = RenamedFiles(self.store, self.reader)
        self._check_query()
        self._values = known_values(self.query)
        self._look(self._source, self.query.source)
        self._columns = identifying_columns(self.query)
        self._keys = keys_of_rows(self._values, self._columns)
        if not self._keys:
            self._unseen(
                'values of the subject are not known: name the rows by equal values (--where "id = 42") or --subjects'
            )
        elif not all(keys_of_rows([row], self._columns) for row in self._values):
            self._unseen(
                "a subject is named by values without letters and digits: these can't be looked for"
            )
        if self.document["not_found"]:
            self._unseen(
                f"{self.document['not_found']:,} of the subjects had no row when the plan was made: what became of their rows is not known"
            )
        for gap in self.document["gaps"]:
            self._unseen(f"the plan was not complete: {gap['app']}: {gap['reason']}")
        self._look(self._readers, "which applications read the rows")
        for app in self.document["apps"]:
            self._look(partial(self._states, app), f"{app}: its streaming queries")
        self._outputs()
        self._own()
        return self._result

    def _check_query(self) -> None:
        asked = self.query.source, condition_of(self.query)
        planned = self.document["source"], self.document["condition"]
        if asked != planned:
            raise ErasureError(
                f"the plan is about {planned}, and not {asked}: give the options it was made with"
            )
        begun = begun_with(self.place.journals, self.document["digest"])
        if begun is not None and begun.form not in {None, self.query.form}:
            raise ErasureError(
                "the plan was carried out with other --format, --columns or --separator: give the options it was made with"
            )
        if not self.query.subjects.keys:
            return
        if begun is None or begun.subjects is None:
            self._unseen("whether these are the subjects that the plan is about is not known")
        elif not begun.subjects.holds(self.query.subjects.keys):
            raise ErasureError("these are not the subjects that the plan is about")

    def _unseen(self, reason: str) -> None:
        self._result.unseen[reason] = None

    def _look(self, at: Callable[[], None], what: str) -> None:
        """Look at something; where that fails, say so."""
        try:
            at()
        except (TimeUpError, StoreUnavailableError):
            raise
        except (LineageError, OSError, KeyError) as problem:
            current_budget().check()
            self._unseen(f"{what}: {problem}")

    # -- the source, and a trace of what is left of it ---------------------------------------

    def _source(self) -> None:
        source = self.query.source
        path = canonical(source)
        if not self.reader.is_folder(source) and not self.reader.files_below(path):
            for other in self._renamed.of_source(path):
                self._unseen(
                    f"{source}: it is gone, and {plain_path(other)} has the size of it, and was written by no job that is known: it may be that file"
                )
            return
        if self.query.rows:
            self._unseen(f"{source}: --rows names lines, and others may be there by now")
            return
        found = matching_rows(self.query, self.reader)
        if found.unreadable:
            self._unseen(
                f"{source}: {found.unreadable:,} values that name rows are not all in UTF-8: whether these are the subject's is not known"
            )
        rows = found.rows
        if not rows:
            return
        self._values = [dict(row.values) for row in rows]
        for row in rows:
            self._result.add("source", row.place, "the row is there")
        plan = self.make()
        for reached in plan.rows:
            if reached.is_there and not reached.kept:
                self._result.add(reached.kind, reached.shown_place, "a trace leads to it")
        for gap in plan.gaps:
            self._unseen(gap.warning())

    def _readers(self) -> None:
        """Applications that read the rows, or rows made of them, and that the plan does not know."""
        known = {*self.document["apps"], *(row["app"] for row in self.document["rows"])}
        places = [*self.document["subject"], *(row["place"] for row in self.document["rows"])]
        spellings = Spellings()
        for path in sorted({path_of_place(place) for place in places if place is not None}):
            current_budget().check()
            recorded = self.store.recorded_files(FileQuery(path, spellings))
            for file in recorded.items:
                # What is there now is looked at itself.
                if (
                    not file.wrote
                    and file.app not in known
                    and not is_current(self.reader, path, file)
                ):
                    self._unseen(
                        f"{file.app} read {plain_path(path)} in another version, and is not in the plan"
                    )
            for app in recorded.unread:
                self._unseen(f"whether {app} read {plain_path(path)} is not known")

    def _states(self, app: str) -> None:
        if app not in self.store.application_ids():
            return
        for query in queries_with_state(self.store, app):
            self._unseen(
                f"{app}: the streaming query {query} keeps state in its checkpoint: what stands there is not known"
            )

    def _is_made_anew(self, path: str, app: str) -> bool:
        """Whether a later job wrote the file as it is now, of what is looked at, too, or of what ``app`` had made the row of."""
        recorded = self.store.recorded_files(FileQuery(path, Spellings()))
        return any(
            file.wrote
            and file.app not in self.document["apps"]
            and is_current(self.reader, path, file)
            and verdict_of(self.store, file.app).complete
            and self._read_the_same(file.app, app)
            for file in recorded.items
        )

    def _was_overwritten(self, path: str, app: str) -> bool:
        """Whether a job wrote the file after an application had, so far as both were captured."""
        recorded = self.store.recorded_files(FileQuery(path, Spellings()))
        times = [(file.app == app, file.version.mtime) for file in recorded.items if file.wrote]
        own = [time for is_own, time in times if is_own]
        return bool(own) and any(time > max(own) for is_own, time in times if not is_own)

    def _read_the_same(self, later: str, app: str) -> bool:
        """Whether a later job read nothing but the source, outputs of the plan, and what an application of the plan had read.

        What else it read may be a copy of the rows that no lineage leads to.
        """
        rows, source = self.document["rows"], canonical(self.query.source)
        looked_at = {
            source,
            *(path_of_place(row["place"]) for row in rows if row["place"] is not None),
        }
        looked_at.update(canonical(row["path"]) for row in rows if row["path"] is not None)
        # Beside the source, a copy of it may lie.
        looked_at.update(path for path in self._sources_of(app) if not is_at_or_below(source, path))
        read = self._files_read(later) - self._files_read(app)
        return all(any(is_at_or_below(path, known) for known in looked_at) for path in read)

    def _sources_of(self, app: str) -> set[str]:
        """The files and folders that an application named to read them."""
        begun = self.store.messages(app, "begin")
        folder = next((message.cwd for message in begun if isinstance(message, Begin)), "")
        nodes = self.store.graph(app).nodes()
        named = (node.path for node in nodes if node.kind in SOURCE_KINDS)
        return {canonical(path, folder or None) for path in named if path}

    def _files_read(self, app: str) -> set[str]:
        return {
            canonical(path)
            for message in self.store.messages(app, *FILE_MESSAGES)
            for _, path, _, wrote in file_versions(message)
            if not wrote
        }

    # -- outputs -----------------------------------------------------------------------------

    def _outputs(self) -> None:
        rows = [row for row in self.document["rows"] if not row["kept"]]
        texts: dict[str, list[dict[str, Any]]] = {}
        unplaced: set[tuple[Any, ...]] = set()
        for row in rows:
            if row["place"] is None and row["what"] == CELLS:
                self._unseen(
                    f"{row['app']}: cells of the array {row['label']} were computed from the rows: what stands in them is not known"
                )
            elif row["place"] is None and row["path"] is not None:
                # All files of the output are looked at: once for its rows of which the same can be said.
                name = f"{row['path']} ({row['label']})"
                alike = row["app"], row["node"], name, *row["columns"]
                if alike not in unplaced:
                    unplaced.add(alike)
                    self._look(partial(self._unplaced, row), name)
            elif row["place"] is None:
                self._unseen(
                    f"{row['app']}: {row['what']} ({row['label']}) gave values to the program: what became of them is not known"
                )
            else:
                self._look(partial(self._planned, row, texts), row["place"])
        files = {path_of_place(row["place"]) for row in rows if row["place"] is not None}
        folders = {row["path"] for row in rows if row["path"] is not None and row["what"] != CELLS}
        for folder in sorted(folders):
            self._look(partial(self._files, folder, files), folder)
        source = canonical(self.query.source)
        self._look(partial(self._passed_over, source, files), self.query.source)
        for path in sorted(files):
            self._look(partial(self._read, path, texts.get(path, ())), plain_path(path))

    def _files(self, folder: str, files: set[str]) -> None:
        self._passed_over(canonical(folder), files)
        files.update(files_with_rows(self.reader, canonical(folder)))

    def _passed_over(self, path: str, files: set[str]) -> None:
        passed_over = passed_over_in(self.reader, path)
        for left in passed_over.uncommitted:
            self._unseen(f"{left}: files that a job did not commit are not read: delete the folder")
        for link in passed_over.named:
            self._unseen(f"{link}: rows behind this link lack the value in its name")
        files.update(passed_over.hidden)

    def _planned(self, row: dict[str, Any], texts: dict[str, list[dict[str, Any]]]) -> None:
        """A row of the plan: it is there while its file is as it was written; else its file is read."""
        check_is_row(row["place"])
        path = path_of_place(row["place"])
        if self.reader.state(path) is None:
            self._check_moved(row, path)
            return
        if row["app"] not in self.store.application_ids():
            raise LineageError(
                f"the lineage of {row['app']} is gone: whether the file has changed is not known"
            )
        status = self.engine.locations(row["app"]).file_status(row["node"], plain_path(path))
        if status in {"same", "touched"}:
            self._result.add(row["kind"], row["place"], "its file is as it was written")
            return
        # What was not there when the plan was made, or a later job had written anew, and is not back, is no row of it.
        was_changed = not row["there"] and row["status"] == "changed"
        was_gone = not row["there"] and row["status"] == "gone"
        if status == "gone" or was_gone:
            return
        if was_changed and self._was_overwritten(path, row["app"]):
            return
        if self._is_made_anew(path, row["app"]):
            return
        known = {name.lower() for values in self._values for name in values}
        columns = {name.lower() for name in row["columns"]}
        if not columns or not columns <= known:
            raise LineageError(
                "its file was changed, and which values of the row stood in it is not known here: whether the row is still there is not known"
            )
        texts.setdefault(path, []).append(row)

    def _unplaced(self, row: Mapping[str, Any]) -> None:
        """A row of the plan that was written to a file which is not known.

        Raises:
            LineageError: the row may be there still.
        """
        files = {}
        if row["app"] in self.store.application_ids():
            files = self.engine.locations(row["app"]).file_statuses(row["node"])
        if not files or set(files.values()) != {"gone"}:
            raise LineageError(
                "where the row stands in it is not known: whether it is still there is not known"
            )
        for path in files:
            self._check_moved(row, path)

    def _check_moved(self, row: Mapping[str, Any], path: str) -> None:
        """See that a row whose file is gone would be found by reading if it was put into another file of its table, or its file was renamed.

        Raises:
            LineageError: it would not.
        """
        identifying = {column.lower() for column in self._columns}
        if identifying and identifying <= {name.lower() for name in row["columns"]}:
            return
        if is_of_table(path) and path not in deleted_files(self.place, self._result.digest):
            raise LineageError(
                "its file is no more in the table: the row may have been put into another one (OPTIMIZE, rewrite_data_files)"
            )
        folder = canonical(row["path"] or path.rpartition("/")[0])
        for other in self._renamed.of_output(path, row["app"], folder):
            raise LineageError(
                f"its file is gone, and {plain_path(other)} has the size of it, and was written by no job that is known: it may be that file"
            )

    def _read(self, path: str, planned: Sequence[Mapping[str, Any]]) -> None:
        """Read a file for values of the subject: those that identify, and those that rows of the plan showed."""
        if self.reader.state(path) is None:
            return
        looked_for = dict.fromkeys(self._keys, "values that identify stand in it")
        for columns in {tuple(row["columns"]) for row in planned}:
            for key in keys_of_rows(self._values, columns):
                looked_for.setdefault(key, f"values of {', '.join(columns)} stand in it")
        search = FileSearch(
            self.reader, path, looked_for, partial(self._result.add, "text"), self._unseen
        )
        try:
            search.run()
        finally:
            self._result.rows_read += search.rows_read

    # -- what is ours ------------------------------------------------------------------------

    def _own(self) -> None:
        steps = steps_in(self.place.journals, self._result.digest)
        if steps is None:
            self._result.add(
                "lineage", "the store", "the plan is not carried out: lineage erase --apply"
            )
        columns = {column.lower() for column in self._columns}
        remains = OwnRemains(
            self.store, self.place, self.reader, steps or (), SubjectTexts(self._keys, columns),
            self._result.add, self._unseen,
        )  # fmt: skip
        for what, look in remains.looks():
            current_budget().check()
            self._look(look, what)
