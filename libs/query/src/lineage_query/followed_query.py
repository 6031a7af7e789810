"""One streaming query through which rows are followed: how far it is, and whether more can come of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lineage_core.contract.message import Stream, TopicOfStream
from lineage_core.recipe.document import Recipe, StreamBatch
from lineage_query.follow_events import Ending
from lineage_query.followed import Followed

MISSING_MAX = 10


@dataclass
class FollowedQuery:
    """``seen``: the first batches that have read what is followed. ``ends``: of the rows' windows; None: not known."""

    id: str
    followed: Followed
    facts: Stream | None = None
    begun_at: tuple[TopicOfStream, ...] = ()
    """Its topics by the run that said where the query began in them."""
    run: str = ""
    app: str = ""
    ending: Ending = Ending.OPEN
    end_reason: str = ""
    first: int | None = None
    last: int = -1
    missing: list[int] = field(default_factory=list)
    recorded: set[int] = field(default_factory=set)
    """Batches behind the last that are recorded and not committed."""
    pending: list[tuple[str, Recipe]] = field(default_factory=list)
    """Recipes of batches that have read what is followed, with the runs that made them."""
    seen: set[int] = field(default_factory=set)
    passed: int | None = None
    """The first batch that reads what comes behind it, where none is known to have read it."""
    told: int = -1
    """The last batch whose rows were traced."""
    read_in: StreamBatch | None = None
    windows: str | None = None
    ends: tuple[int, ...] | None = None
    watermark: int | None = None
    still_since: int | None = None
    """The first of the latest batches by which the watermark has not passed: they gave no window, and name no rows."""
    reasons: set[str] = field(default_factory=set)

    def take_facts(self, facts: Stream) -> None:
        """Take what a run reads. Where the query began in its topics, its first run alone says."""
        topics = facts.topics
        if topics is not None:
            topics = tuple(self._with_firsts(topics))
            self.begun_at = topics
        self.facts = facts.model_copy(update={"topics": topics})

    def _with_firsts(self, topics: tuple[TopicOfStream, ...]) -> Iterator[TopicOfStream]:
        known = self.begun_at if len(self.begun_at) == len(topics) else topics
        for now, before in zip(topics, known, strict=True):
            firsts = now.firsts if now.firsts is not None else before.firsts
            filled = now.model_copy(update={"firsts": firsts})
            is_same = filled == before.model_copy(update={"firsts": firsts})
            yield filled if is_same else now

    @property
    def is_concerned(self) -> bool:
        """Whether it has read what is followed, or may, or it is known why it never does."""
        if self.facts is None or self.seen:
            return True
        return bool(self.streams or self.reads_beside or self.followed.never(self.facts))

    @property
    def streams(self) -> int:
        """How many of its streams may read it."""
        return 0 if self.facts is None else self.followed.streams(self.facts)

    @property
    def reads_beside(self) -> bool:
        """Whether each batch may read it, too, beside its streams."""
        return self.facts is not None and self.followed.is_beside(self.facts)

    @property
    def has_function(self) -> bool:
        """Whether its batches go to a function."""
        return self.facts is not None and self.facts.function

    @property
    def keeps(self) -> str:
        """What its rows may be made of."""
        return "more" if self.facts is None else self.facts.keeps

    def commit(self, number: int) -> list[int]:
        """A batch is committed. Returns those up to it, behind the last, that are not recorded."""
        if self.first is None:
            self.first = number
        skipped = range(self.last + 1, number) if self.last >= 0 else ()
        is_known = number in self.recorded or self.has_function
        absent = [*skipped, *(() if is_known else (number,))]
        self.missing += absent[: MISSING_MAX - len(self.missing)]
        self.recorded = {later for later in self.recorded if later > number}
        self.last = max(self.last, number)
        return absent

    def due(self, number: int) -> list[Recipe]:
        """Recipes of batches up to a number, which wait no more."""
        recipes = [recipe for _, recipe in self.pending if _number(recipe) <= number]
        self.pending = [entry for entry in self.pending if _number(entry[1]) > number]
        return recipes

    def unknown_late(self, before: int | None) -> str:
        """Why it is not known which rows of the batch that is committed came too late; empty: those by the watermark ``before`` did."""
        if self.facts is None or not self.facts.late_by_before:
            return "it is not known by which watermark rows are late"
        if self.missing:
            return f"batch {self.missing[0]} is not recorded, and may have read them"
        if self.first or before is None:
            return "batches before are not recorded, and may have read them"
        return ""

    @property
    def is_passed(self) -> bool:
        """Whether a batch that is not recorded has read it: a later one is committed."""
        is_later = self.passed is not None and self.passed <= self.last
        return is_later and self.read_in is None and self.streams == 1

    def done_reason(self) -> str:
        """Why nothing more can come of it; empty: something can."""
        if self.facts is None or self.reads_beside or self.followed.goes_on:
            return ""
        if self.read_in is None:
            never = "" if self.seen else self.followed.never(self.facts)
            if never:
                return f"it never reads it: {never}"
            if self.is_passed and self.facts.keeps == "nothing":
                return f"batch {self.passed} reads what comes behind it"
            return ""
        read = f"batch {self.read_in.number} has read it and is committed"
        # A plan may read a stream several times, so one batch counts once: two streams may have read it in two.
        count = len(self.seen) if self.facts.keeps == "nothing" else 1
        if count < self.streams:
            return ""
        if self.facts.keeps == "nothing":
            return read
        if self.facts.keeps != "windows" or self.ends is None or self.watermark is None:
            return ""
        if self.read_in.run != self.run:
            return ""
        if not self.ends:
            return f"{read}, and none of its rows is in a window"
        if self.ends[-1] > self.watermark * 1000:
            return ""
        return f"{read}, and the watermark has passed the last window of its rows"

    def open_reason(self) -> str:
        """Why more may come of it."""
        if self.facts is None:
            return f"what it reads is not known{f': {self.end_reason}' if self.end_reason else ''}"
        if self.followed.goes_on:
            reason = "more such rows may come"
        elif self.read_in is None:
            reason = self._unread_reason(self.facts)
        elif self.reads_beside:
            reason = "each batch may read it beside its streams"
        elif self.facts.keeps == "windows":
            reason = "a window of its rows may be given later"
            if self.ends is None:
                reason += ", and when is not known"
        elif self.facts.keeps == "more":
            reason = "what it keeps of its rows is not known"
        else:
            reason = "another stream of the query may read it, too"
        return f"{reason} ({self.end_reason})" if self.end_reason else reason

    def _unread_reason(self, facts: Stream) -> str:
        # The plan of a batch in which no window is due reads nothing.
        reason = "no recorded batch that gave rows has read it"
        if self.first:
            reason += f"; batches before {self.first} are not recorded"
        if self.missing:
            reason += f"; nor batches {', '.join(map(str, self.missing))}"
        if facts.function:
            reason += "; of batches whose function recorded nothing it is not known"
        return reason


def _number(recipe: Recipe) -> int:
    assert recipe.batch is not None
    return recipe.batch.number
