"""Reasons and warnings as answers list them: programs may give any number of any length."""

from __future__ import annotations

import re
from collections.abc import Iterable

LISTED_MAX = 100
"""Maximum number of reasons in a list."""
LISTED_CHARS_MAX = 5_000
"""Maximum number of characters of a reason in a list: those of a path and what is said of it."""
_MORE = re.compile(r"\band (?:at least )?[\d,]+ more reasons$")
"""The end of the last reason of a list that leaves some out."""


class ReasonList:
    """Collects reasons, each once and cut to some characters: the first ones, and how many more there were."""

    def __init__(
        self,
        reasons: Iterable[str] = (),
        *,
        listed_max: int = LISTED_MAX,
        chars_max: int = LISTED_CHARS_MAX,
    ) -> None:
        self._listed_max, self._chars_max = listed_max, chars_max
        self._listed: dict[str, None] = {}
        self._left_out: set[int] = set()
        """Hashes of the others: texts of all of them may be more than memory holds."""
        self._is_minimum = False
        for reason in reasons:
            self.add(reason)

    def __bool__(self) -> bool:
        return bool(self._listed)

    def add(self, reason: str) -> None:
        """Add a reason; a long one is cut, and says so."""
        cut = cut_text(reason, self._chars_max)
        if cut in self._listed:
            return
        if len(self._listed) < self._listed_max:
            self._listed[cut] = None
        else:
            self._left_out.add(hash(reason))
            self._is_minimum |= _MORE.search(cut) is not None

    def items(self) -> tuple[str, ...]:
        """The reasons; the last one says how many are left out, if any are. Items of a list of these are the same again."""
        if not self._left_out:
            return tuple(self._listed)
        *listed, last = self._listed
        is_minimum = self._is_minimum or _MORE.search(last) is not None
        number = f"{'at least ' if is_minimum else ''}{len(self._left_out) + 1:,}"
        return (*listed, f"and {number} more reasons")


def listed_reasons(reasons: Iterable[str]) -> tuple[str, ...]:
    """Reasons as an answer lists them (:class:`ReasonList`)."""
    return ReasonList(reasons).items()


def cut_text(text: str, chars_max: int = LISTED_CHARS_MAX) -> str:
    """A text of at most so many characters: a longer one ends with how many it has."""
    if len(text) <= chars_max:
        return text
    end = f"... [cut: {len(text):,} characters]"
    return text[: chars_max - len(end)] + end
