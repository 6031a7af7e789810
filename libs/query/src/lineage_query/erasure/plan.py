"""A plan of what a subject's rows went into: what is to be erased, and what an access request is answered with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Literal, TypeAlias

from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.region import Region
from lineage_query.answers import NotQueried
from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery, SubjectRow, find_subject
from lineage_query.erasure.keeping import Kept, StorePlace, kept_of
from lineage_query.erasure.kinds import told_apart
from lineage_query.erasure.reached import Kind, ReachedRow
from lineage_query.erasure.reaching import Reaching
from lineage_query.erasure.stream_states import stream_states
from lineage_query.erasure.unread_files import unread_files
from lineage_query.rows.reader import RowReader
from lineage_query.showing import names_text
from lineage_store.paths import canonical
from lineage_store.port import GraphStore

VERSION = 1
Purpose: TypeAlias = Literal["erase", "access"]
_DIGESTED = ("version", "source", "condition", "subject", "rows", "exact", "complete", "gaps")
LISTED_MAX = 1_000
"""Gaps, reasons and notes of a plan that are listed each."""
ARRAYS_NAMED = 100
OUTPUTS_NAMED = 20
NOT_REMOVED = (
    "What a program passed on by accumulators, broadcast variables, values in closures, the driver's memory or files that "
    "its functions opened by themselves: lineage sees none of it.",
    "Logs of jobs and of Spark, its event logs, shuffle files, what it has cached, checkpoints, backups and snapshots of file systems.",
    "Models and other results that a program computed from the rows and kept outside of what it wrote.",
    "Copies that no captured program made, outputs of programs whose lineage was deleted or is in another store, or that read the source under another name without a checksum, and sources and outputs that were moved or renamed; names of columns and folders that are values of rows "
    "(`pivot`, `partitionBy`); files of attempts that a job did not commit (`_temporary`), or that no version of a table has (VACUUM, remove_orphan_files); rows that no captured program put into other files of a table (OPTIMIZE, rewrite_data_files); older versions of tables, and least and greatest values of columns in their logs: erase "
    "them by the means of the table (VACUUM, expire_snapshots).",
    "Of what lineage keeps: positions, counts and checksums, code of Python functions in signed recipes, texts of errors, arguments of "
    "programs, recipes of the windows of streams, names and paths in recordings of arrays, data sets of triples, records of Kafka behind those of other applications, and transaction logs of "
    "Neo4j; spools on other machines and in other folders than LINEAGE_SPOOL says here, with records that Kafka did not take; and blocks of tasks without an end in the linker's Redis, until they expire there "
    "(LINEAGE_LINKER_RETENTION_S). Files of a lake whose writer was killed or is still at work, "
    "which no version has: `lineage compact` deletes them when they are a week old. Kafka gives nobody a deleted record, "
    "and removes it from its disks with the segment of the log.",
    "This plan, its list and reports, histories of shells, and audit records: they have the condition, which may name a person.",
    "Dumps and backups of stores, and files that `lineage dump`, `lineage export`, `lineage replay --to`, reports of `lineage access`, other "
    "commands' outputs or OpenLineage made; logs of background sessions, and what these hold in memory until they end.",
)
"""What no plan removes, whatever the rows are."""
NOT_LOOKED_AT = (
    "What lineage keeps in folders and caches, and what waits in spools: this plan did not look there, and names kept rows as "
    "rows of outputs. A plan that is made where the store is has them."
)
"""What is left where the place of the store is not known."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a subject's rows are, and what they went into.

    ``source``, ``condition``: as typed. ``places``: of the subject's rows; ``texts``: what they hold, for an access request.
    ``rows``: of outputs, those of the earliest application first. ``kept``: what lineage itself keeps. ``complete``: no row
    is missing, as far as is known; ``gaps`` say why not. ``exact``: each row was made of the subject's; ``reasons`` say why not.
    """

    purpose: Purpose
    source: str
    condition: str
    places: tuple[str, ...]
    texts: tuple[str, ...]
    searched: int
    rows: tuple[ReachedRow, ...]
    kept: tuple[Kept, ...]
    apps: tuple[str, ...]
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    gaps: tuple[NotQueried, ...]
    notes: tuple[str, ...]
    incomparable: Mapping[str, int] = field(default_factory=dict)
    not_found: int = 0
    not_removed: tuple[str, ...] = NOT_REMOVED
    """What an erasure by this plan leaves."""
    subject: tuple[SubjectRow, ...] = field(default=(), repr=False)
    """The rows with their values; in no document."""
    passed: Mapping[str, Mapping[str, Region]] = field(default_factory=dict, repr=False)
    """As of `Reached`; in no document."""

    @property
    def digest(self) -> str:
        """A name for which rows the plan is about and what they went into: equal plans have the same, whenever they are made."""
        return digest_of(
            {
                "version": VERSION,
                "source": self.source,
                "condition": self.condition,
                "subject": self.places,
                "rows": [row.to_json() for row in self.rows],
                "exact": self.exact,
                "complete": self.complete,
                "gaps": [gap.to_json() for gap in self.gaps],
            }
        )

    def of_kind(self, kind: Kind) -> list[ReachedRow]:
        """Rows of one kind of outputs that are where they were written."""
        return [row for row in self.rows if row.kind == kind and row.is_there and not row.kept]

    @property
    def elsewhere(self) -> list[ReachedRow]:
        """Rows that are in no file as it was written, as far as is known: overwritten, gone, or given to the program alone."""
        return [row for row in self.rows if not row.is_there and not row.kept]

    @property
    def unseen(self) -> list[ReachedRow]:
        """Those of them whose files can't be looked at from here, or be compared with what was written: they may be there."""
        rows = [row for row in self.elsewhere if row.status == "unknown"]
        return [row for row in rows if row.place is not None or row.is_unplaced]

    @property
    def kept_rows(self) -> list[ReachedRow]:
        """Rows that lineage itself keeps."""
        return [row for row in self.rows if row.kept]

    def own_remainders(self) -> Iterator[str]:
        """What an erasure by this plan leaves, beside what none removes."""
        yield from self._arrays()
        driver = [
            row
            for row in self.rows
            if row.place is None and row.path is None and not row.is_cell and not row.kept
        ]
        if driver:
            calls = ", ".join(
                sorted({f"{row.what} ({row.label}, {row.app})" for row in driver})[:20]
            )
            yield f"What {len(driver):,} results handed to programs: {calls}."
        named = [app for app, spaces in self.passed.items() if OPAQUE_SPACE in spaces]
        if named:
            yield (
                "Names that programs gave to records, as their positions are made of them: delete the lineage of "
                f"{', '.join(named[:20])}."
            )
        yield from self._unplaced()
        unseen = len(self.unseen)
        if unseen:
            yield (
                f"{unseen:,} rows in files that can't be looked at from here (outside of the folders that a server reads, or on "
                "storage that is away), or of which just the time is another and nothing tells whether they hold what was written: "
                "they may be there."
            )
        changed = sum(row.place is not None and row.status == "changed" for row in self.elsewhere)
        if changed:
            yield (
                f"{changed:,} rows in files that were changed or overwritten after the job had written them: what of them is there still is not "
                "known. `lineage erase --verify` reads these files for values."
            )
        mixed = len(self.of_kind("mixed"))
        if mixed:
            yield f"{mixed:,} values that other rows went into, too: only the jobs, run again without the rows, make them anew."
        supersets = sum(not row.exact for row in self.rows)
        if supersets:
            yield f"{supersets:,} rows are a superset: the subject's rows may have gone into them, and may not."
        if not self.complete:
            yield "What the gaps above name: rows may be there that are not in this plan."

    def _unplaced(self) -> Iterator[str]:
        rows = [row for row in self.rows if row.is_there and row.is_unplaced]
        if rows:
            outputs = list(dict.fromkeys(f"{row.path} ({row.label}, {row.app})" for row in rows))
            named = names_text(outputs, OUTPUTS_NAMED)
            yield (
                f"{len(rows):,} rows of outputs in which their places are not known: {named}. `lineage access` shows what they hold, "
                "by which they can be looked for."
            )

    def _arrays(self) -> Iterator[str]:
        cells = [row for row in self.rows if row.is_cell]
        if cells:
            in_file = {(row.label, row.app): row.path for row in cells}
            named = [
                f"{label} ({f'{path}, ' if path else ''}{app})"
                for (label, app), path in in_file.items()
            ]
            yield (
                f"{len(cells):,} cells of arrays, which were computed from the rows: {names_text(named, ARRAYS_NAMED)}. Programs that "
                "are run again without the rows make them anew."
            )

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on; keys are only ever added."""
        return {
            "version": VERSION,
            "digest": self.digest,
            "purpose": self.purpose,
            "source": self.source,
            "condition": self.condition,
            "subject": list(self.places),
            "texts": list(self.texts),
            "searched": self.searched,
            "rows": [row.to_json() for row in self.rows],
            "kept": [asdict(kept) for kept in self.kept],
            "apps": list(self.apps),
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "gaps": [gap.to_json() for gap in self.gaps],
            "notes": list(self.notes),
            "incomparable": dict(self.incomparable),
            "not_found": self.not_found,
            "not_removed": list(self.not_removed),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """Read what :meth:`to_json` gave, as far as it is in the document.

        Raises:
            KeyError, TypeError: it is no plan, or that of another version.
        """
        return cls(
            purpose=document["purpose"],
            source=document["source"],
            condition=document["condition"],
            places=tuple(document["subject"]),
            texts=tuple(document["texts"]),
            searched=document["searched"],
            apps=tuple(document["apps"]),
            exact=document["exact"],
            reasons=tuple(document["reasons"]),
            complete=document["complete"],
            notes=tuple(document["notes"]),
            not_removed=tuple(document["not_removed"]),
            rows=tuple(ReachedRow.from_json(row) for row in document["rows"]),
            kept=tuple(Kept(**kept) for kept in document["kept"]),
            gaps=tuple(NotQueried.from_json(gap) for gap in document["gaps"]),
            incomparable=document["incomparable"],
            not_found=document["not_found"],
        )


def digest_of(document: Mapping[str, Any]) -> str:
    """The digest of a plan as JSON, of those of its keys that name what it is about.

    Raises:
        KeyError: it is no plan.
    """
    parts = {key: document[key] for key in _DIGESTED}
    parts["rows"] = [row | {"text": None} for row in parts["rows"]]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def make_plan(
    purpose: Purpose,
    query: SubjectQuery,
    store: GraphStore,
    reader: RowReader,
    engine: QueryEngine,
    place: StorePlace | None = None,
) -> Plan:
    """Find a subject's rows, and all that they went into.

    Args:
        purpose: an access request shows what the rows hold, an erasure does not.
        query: which rows.
        store: has the lineage.
        reader: reads the files.
        engine: traces over both.
        place: of the store; None: it has no folders on this machine.

    Raises:
        SubjectError: which rows are the subject's is not known, or ambiguous.
        ConditionError: the condition is not understood.
        RowsError: a file can't be read.
        BudgetError: it takes longer than the query may.
        StoreUnavailableError: the store does not answer.
    """
    subject = find_subject(query, reader)
    reached = Reaching(
        store, reader, engine, () if place is None else (canonical(str(place.rows)),)
    ).reach(subject.rows)
    rows = told_apart(reached.rows, subject.rows, store, engine, complete=reached.complete)
    shows = purpose == "access"
    plan = Plan(
        purpose=purpose,
        source=query.source,
        condition=condition_of(query),
        places=tuple(row.place for row in subject.rows),
        texts=tuple(row.text for row in subject.rows) if shows else (),
        searched=subject.searched,
        rows=tuple(rows if shows else [row.without_text() for row in rows]),
        kept=kept_of(store, [*reached.apps], rows, place),
        apps=tuple(reached.apps),
        exact=all(row.exact for row in rows),
        reasons=_first(reached.reasons),
        complete=reached.complete,
        gaps=tuple(reached.gaps),
        notes=_first(reached.notes),
        incomparable=subject.incomparable,
        not_found=subject.not_found,
        subject=subject.rows,
        passed=reached.passed,
    )
    not_looked_at = () if place is not None else (NOT_LOOKED_AT,)
    remainders = chain(
        plan.own_remainders(),
        stream_states(store, reached.apps),
        unread_files(query.source, rows, reader),
    )
    return replace(plan, not_removed=(*NOT_REMOVED, *not_looked_at, *remainders))


def condition_of(query: SubjectQuery) -> str:
    """How the rows were named, without keys of persons: these are data."""
    if query.rows:
        return f"rows {', '.join(map(str, sorted(set(query.rows))[:20]))}" + ", ..." * (
            len(set(query.rows)) > 20
        )
    if query.subjects.keys:
        return f"{len(query.subjects.keys):,} subjects by {', '.join(query.subjects.columns)}"
    return query.where


def _first(texts: Mapping[str, None]) -> tuple[str, ...]:
    listed = list(texts)[:LISTED_MAX]
    more = len(texts) - len(listed)
    return (*listed, *([f"... and {more:,} more"] if more else []))
