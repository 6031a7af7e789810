"""A text that equals others whatever their case, plain ones in lower case among them."""

from __future__ import annotations


class CaseBlind(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())
