"""Text that does not steer the terminal it is printed to."""

from __future__ import annotations

from unicodedata import category


def plain(text: str, keep: str = "") -> str:
    """Text with escapes in place of what could steer a terminal or turn its lines around, but for the characters in ``keep``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one if _is_plain(one) or one in keep else one.encode("unicode_escape").decode()
        for one in text
    )


def _is_plain(one: str) -> bool:
    # Spaces of all kinds (Zs) are not printable to Python, but for the usual one.
    return one.isprintable() or category(one) == "Zs"
