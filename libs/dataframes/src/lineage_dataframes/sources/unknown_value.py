"""What stands for a value that is not known: never a value, and NULL is one."""

from __future__ import annotations

from typing import Any, Final


class UnknownValue:
    """The one of its kind is `UNKNOWN`."""

    def __repr__(self) -> str:
        return "<unknown>"

    def to_json(self) -> dict[str, bool]:
        """As tools read it: never a value of a column that identifies rows."""
        return {"$unknown": True}


UNKNOWN: Final = UnknownValue()


def as_json(value: Any) -> Any:
    """What `json` can't write by itself: what is unknown by its mark, else the value's text."""
    return value.to_json() if isinstance(value, UnknownValue) else str(value)
