"""Tells rows that carry a subject's rows from values that other rows went into, too.

A row carries them if, of the rows that it was made of, no other is of the same source (a copy, a joined row), or if a value stands in it
that no other of these rows of the source has, and that is not likely to stand there by chance, as short numbers do. Otherwise it is mixed, where its own trace backward is exact and its text can be read; else
it is not told apart. What a program changed (hashes, other spellings, parts of texts) is not recognised as a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import chain
from typing import Any
from unicodedata import normalize

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TimeUpError, current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group
from lineage_query.engine import QueryEngine
from lineage_query.erasure.binary_values import text_in, text_in_python
from lineage_query.erasure.finding import SubjectRow
from lineage_query.erasure.reached import Kind, Place, ReachedRow, place_of
from lineage_query.erasure.testing import UNREADABLE
from lineage_query.recipe_rows import recipe_nodes_among
from lineage_query.rows.cut_texts import is_cut
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import StoreUnavailableError
from lineage_store.port import GraphStore

TRACED_MAX = 2_000
"""Rows that are traced backward for one plan; the others are not told apart."""
FRAMES_TRACED_MAX = 100
"""Of these, rows of DataFrames: each may take a query of Spark."""
SOURCES_LISTED_MAX = 1_000
"""Rows of a source that are compared for one row."""
NUMBER_CHARACTERS_MAX = 40
SURE_DIGITS = 6
"""Significant digits from which on a number in a text is taken for a row's value: a shorter one may be a count, a sum or a year."""
_SHORT_WORD_MAX = 2
_COMMON_WORDS = frozenset({"true", "false", "yes", "null", "none", "nan"})
_WORD = re.compile(r"(?:\d+(?:\.\d+)?|(?<![\w.])\.\d+)(?:[eE][-+]?\d{1,3})?(?![^\W_])|[^\W_]+")
"""A number without its sign, or letters and digits."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What a row's application made it of. ``through``: rows of the subject, or that they reached, among these.

    ``others_known``: ``other_words`` are those of all others.
    """

    through: frozenset[Place]
    others: int
    at_least: bool
    other_words: tuple[tuple[str, ...], ...]
    others_known: bool
    exact: bool


def told_apart(
    rows: Sequence[ReachedRow],
    subject: Sequence[SubjectRow],
    store: GraphStore,
    engine: QueryEngine,
    *,
    complete: bool,
) -> list[ReachedRow]:
    """The rows, with what kind each is and why.

    ``complete``: these are all rows that the subject's went into; else what looks like another row may be one of them.

    Raises:
        BudgetError: the query exceeds its time.
        StoreUnavailableError: the store does not answer.
    """
    starts = frozenset(place for row in subject if (place := place_of(row.place)) is not None)
    known = starts | {place_of(row.place) for row in rows if row.place is not None}
    kept = {place_of(row.place) for row in rows if row.kept and row.place is not None}
    steps = _Steps(store, engine, known, kept)
    return _Judging(rows, subject, starts, [steps.of(row) for row in rows], complete).judged()


class _Steps:
    """Traces rows one step back."""

    def __init__(
        self,
        store: GraphStore,
        engine: QueryEngine,
        known: Container[Place | None],
        kept: Set[Place | None],
    ) -> None:
        """``known``: the subject's rows, and what they reached; ``kept``: of these, what lineage keeps."""
        self._store = store
        self._engine = engine
        self._known = known
        self._kept = kept
        self._frames: dict[tuple[str, str], bool] = {}
        self._traced = self._frames_traced = 0

    def of(self, row: ReachedRow) -> _Step | str:
        """What a row was made of, or why that is not known."""
        current_budget().check()
        if row.place is None:
            return "it has no place of its own"
        if row.kept:
            return "lineage keeps it"
        if row.status not in {"same", "touched"}:
            return "its file is not what the job wrote any more"
        is_frame = self._is_frame(row.app, row.node)
        if self._traced >= TRACED_MAX or (is_frame and self._frames_traced >= FRAMES_TRACED_MAX):
            return f"only {TRACED_MAX:,} rows, {FRAMES_TRACED_MAX:,} of them of DataFrames, are traced backward"
        self._traced += 1
        self._frames_traced += is_frame
        return _step_of(row, self._known, self._kept, self._engine)

    def _is_frame(self, app: str, node: str) -> bool:
        if (app, node) not in self._frames:
            nodes = self._store.graph(app).nodes()
            self._frames[app, node] = bool(recipe_nodes_among(nodes, (node,)))
        return self._frames[app, node]


def _step_of(
    row: ReachedRow,
    known: Container[Place | None],
    kept: Set[Place | None],
    engine: QueryEngine,
) -> _Step | str:
    query = TraceQuery(
        Direction.BACKWARD, (row.place or "",), app=row.app, limit=SOURCES_LISTED_MAX
    )
    try:
        return _step(engine.ask(query), known, kept)
    except (TimeUpError, StoreUnavailableError):
        raise
    except LineageError as problem:
        current_budget().check()
        return f"what it was made of is not known: {problem}"


@dataclass(slots=True)
class _OfSource:
    """Rows of one source that a row was made of: ``own`` are the subject's, or were reached from these."""

    group: Group
    own: set[Place] = field(default_factory=set)
    own_count: int = 0
    other_words: dict[tuple[str, ...], None] = field(default_factory=dict)
    others_read: bool = True

    @classmethod
    def of(cls, group: Group, known: Container[Place | None]) -> _OfSource:
        """The rows of a group. ``known``: the subject's, and what they reached."""
        found = cls(group)
        for item in group.items:
            place = None if item.location is None else place_of(item.location)
            if place is not None and place in known:
                found.own.add(place)
                found.own_count += 1
            else:
                is_read = item.binding != "now" and item.text is not None
                found.others_read &= is_read and not is_cut(item.text)
                found.other_words[words_of(item.text or "")] = None
        return found


def _step(answer: Answer, known: Container[Place | None], kept: Set[Place | None]) -> _Step | str:
    # Rows of other sources may be the same person's.
    of_sources = [
        of_source for group in answer.groups if (of_source := _OfSource.of(group, known)).own
    ]
    if not of_sources:
        return "its own trace backward does not lead to the rows"
    through = frozenset(chain.from_iterable(of_source.own for of_source in of_sources))
    # A row that lineage keeps is made of those of a source, which the answer has, too.
    of_sources = [one for one in of_sources if not one.own <= kept] or of_sources
    all_listed = all(one.group.count == len(one.group.items) for one in of_sources)
    return _Step(
        through,
        sum(one.group.count - one.own_count for one in of_sources),
        not all_listed,
        tuple(dict.fromkeys(chain.from_iterable(one.other_words for one in of_sources))),
        all_listed and all(one.others_read for one in of_sources),
        answer.exact and answer.complete,
    )


@dataclass
class _Judging:
    rows: Sequence[ReachedRow]
    subject: Sequence[SubjectRow]
    starts: frozenset[Place]
    steps: Sequence[_Step | str]
    complete: bool

    @cached_property
    def _values(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The subject's values, each once, as column and words."""
        values = dict.fromkeys(chain.from_iterable(row.values for row in self.subject))
        return tuple((column, words) for column, value in values if (words := words_of(value)))

    def judged(self) -> list[ReachedRow]:
        """Rows in the order of their making, as far as they depend on each other."""
        of_place: dict[Place, ReachedRow] = {}
        result = list(self.rows)
        waiting = list(range(len(result)))
        producers = {place for row in result if row.place and (place := place_of(row.place))}
        while waiting:
            current_budget().check()
            ready = [at for at in waiting if self._is_ready(self.steps[at], of_place, producers)]
            # Rows of a circle of files that were written again and again wait for each other.
            for at in ready or waiting:
                row = result[at] = self._judge(result[at], self.steps[at], of_place)
                place = place_of(row.place) if row.place else None
                if place is not None:
                    of_place[place] = _stronger(of_place.get(place), row)
            done = set(ready or waiting)
            waiting = [at for at in waiting if at not in done]
        return result

    def _is_ready(
        self, step: _Step | str, of_place: Mapping[Place, ReachedRow], producers: set[Place]
    ) -> bool:
        if isinstance(step, str):
            return True
        return all(
            place in self.starts or place in of_place or place not in producers
            for place in step.through
        )

    def _judge(
        self, row: ReachedRow, step: _Step | str, of_place: Mapping[Place, ReachedRow]
    ) -> ReachedRow:
        columns = self._columns_in(row.text, ())
        if isinstance(step, str):
            return replace(row, kind="unknown", basis=step, columns=columns)
        own = self._columns_in(row.text, step.other_words)
        # Of rows that are missing in the plan, what looks like another's may be the subject's.
        knows_own = step.others_known and (self.complete or bool(own))
        own = own if knows_own else columns
        before = [of_place[place] for place in step.through if place in of_place]
        is_direct = bool(step.through & self.starts)
        if not is_direct:
            shared = self._shared_in(before)
            own = tuple(column for column in own if column not in shared)
        kinds = {one.kind for one in before}
        is_copy = step.others == 0 and (is_direct or not before or "carries" in kinds)
        doubt = ""
        if not is_direct and "unknown" in kinds and "carries" not in kinds:
            doubt = "as in a row that is not told apart"
        elif not knows_own:
            doubt = "which others of these may have, too"
        elif self._may_be_chance(row.text or "", own):
            doubt = "so short that they may be something else"
        if own and (is_copy or not doubt):
            basis = f"values of {', '.join(own)} stand in it"
            return self._with(row, "carries", basis, step, own)
        if is_copy:
            return self._with(row, "carries", "no other row of its source went into it", step, ())
        if not step.exact:
            basis = "what it was made of is a superset, or incomplete"
            return self._with(row, "unknown", basis, step, ())
        if row.text is None or is_cut(row.text) or holds_unreadable(row.text):
            return self._with(row, "unknown", "its whole text can't be read", step, ())
        if own:
            basis = f"values of {', '.join(own)} stand in it, {doubt}"
            return self._with(row, "unknown", basis, step, own)
        if step.others == 0:
            weakest = max(before, key=lambda one: (one.kind == "unknown", one.others or 0))
            judged = self._with(row, weakest.kind, f"made of {weakest.place} alone", step, ())
            return replace(judged, others=weakest.others, at_least=weakest.at_least)
        with_others = (
            f"; values of {', '.join(columns)} stand in it, which others of these have, too"
        )
        basis = f"other rows went into it{with_others if columns else ''}"
        return self._with(row, "mixed", basis, step, ())

    def _shared_in(self, before: Sequence[ReachedRow]) -> frozenset[str]:
        """Columns whose values stand in the rows that a row was made of as other rows of the source have them, and in none as the subject's own."""
        shared, own = set[str](), set[str]()
        for row in before:
            if row.kind == "carries" and not row.columns:
                return frozenset()
            if row.kind != "unknown":
                shared.update(self._columns_in(row.text, ()))
            own.update(row.columns if row.kind == "carries" else ())
        return frozenset(shared - own)

    def _may_be_chance(self, text: str, columns: Sequence[str]) -> bool:
        """Whether values of columns of the subject that stand in a text may be other values."""
        words, by_column = words_of(text), _values_by_column(text)
        return not any(
            _is_sure(own) or holds(by_column.get(column.lower(), ()), own)
            for column, own in self._values
            if column in columns and holds(words, own)
        )

    @staticmethod
    def _with(
        row: ReachedRow, kind: Kind, basis: str, step: _Step, columns: tuple[str, ...]
    ) -> ReachedRow:
        return replace(
            row, kind=kind, basis=basis, others=step.others, at_least=step.at_least, columns=columns
        )

    def _columns_in(self, text: str | None, others: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Columns of the subject whose values stand in a text, but for those that another row has, too."""
        if text is None:
            return ()
        words = words_of(text)
        found = {
            column: None
            for column, own in self._values
            if holds(words, own) and not any(holds(other, own) for other in others)
        }
        return tuple(found)


def _is_sure(value: Sequence[str]) -> bool:
    """Whether a value in a text is not there by chance: it has several words, or one that is neither short nor common."""
    if len(value) != 1:
        return True
    (word,) = value
    try:
        return len(Decimal(word).as_tuple().digits) >= SURE_DIGITS
    except InvalidOperation:
        is_short = word.isascii() and len(word) <= _SHORT_WORD_MAX
        return not is_short and word not in _COMMON_WORDS


def _values_by_column(text: str) -> dict[str, tuple[str, ...]]:
    """The words of the values of a row by its columns, in small letters; none where its text does not name them."""
    row = _json_in(text)
    if not isinstance(row, dict):
        return {}
    return {
        name.lower(): tuple(word for leaf in _leaves(value) for word in words_of(leaf))
        for name, value in row.items()
    }


def _stronger(one: ReachedRow | None, other: ReachedRow) -> ReachedRow:
    order: Sequence[Kind] = ("mixed", "unknown", "carries")
    return other if one is None or order.index(other.kind) > order.index(one.kind) else one


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in order, small letters, letters and numbers in one spelling.

    Of JSON, those of its values, also in bytes, in JSON that is a text there, and in names of values within others, which may be keys of a map.
    """
    return tuple(
        _number(match.group()) or match.group().casefold()
        for piece in _pieces(text)
        # An accent may be a sign of its own.
        for match in _WORD.finditer(piece if piece.isascii() else normalize("NFKC", piece))
    )


def holds(words: Sequence[str], value: Sequence[str]) -> bool:
    """Whether the words of a value stand in a text one behind the other."""
    size = len(value)
    return any(
        words[at] == value[0] and tuple(words[at : at + size]) == tuple(value)
        for at in range(len(words) - size + 1)
    )


def holds_all(words: Sequence[str], key: Iterable[Sequence[str]]) -> bool:
    """Whether the words of all values of a key stand in a text."""
    return all(holds(words, value) for value in key)


def _number(word: str) -> str | None:
    if len(word) > NUMBER_CHARACTERS_MAX or not (word[0].isdigit() or word[0] == "."):
        return None
    try:
        return str(Decimal(word).normalize())
    except InvalidOperation:
        return None


def holds_unreadable(text: str) -> bool:
    """Whether a text, or bytes in it, are not all in UTF-8."""
    if UNREADABLE in text:
        return True
    may_have_bytes = "b'" in text or 'b\\"' in text
    return may_have_bytes and any(UNREADABLE in piece for piece in _pieces(text))


def _pieces(text: str) -> Iterable[str]:
    """The texts in a text: of JSON, those of its values; of bytes as Python writes them, what they hold."""
    document = _json_in(text)
    if document is None:
        return tuple(text_in_python(text)) or (text,)
    inner = document.values() if isinstance(document, dict) else document
    try:
        return [piece for value in inner for piece in _leaves(value)]
    except RecursionError:
        return (text,)


def _json_in(text: str) -> Any:
    """An object or array that a text is; None: it is none."""
    if text[:1] not in {"{", "["}:
        return None
    try:
        # As they are written: decimals have more digits than Python's numbers.
        return json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for inner in value.values():
                yield from _leaves(inner)
            yield from value
        case list():
            for inner in value:
                yield from _leaves(inner)
        case None:
            return
        case bool():
            # As in conditions and in files of text.
            yield str(value).lower()
        case str():
            for text in (value, *text_in(value)):
                yield text
                # Signs may be written by their numbers there.
                yield from _leaves(_json_in(text))
        case _:
            yield str(value)
