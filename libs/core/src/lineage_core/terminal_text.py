"""Text that does not steer the terminal it is printed to."""

from __future__ import annotations

from unicodedata import category


def plain(text: str, keep: str = "") -> str:
    """Text with escapes in place of what could steer a terminal or turn its lines around, but for the characters in ``keep``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if _is_plain(character) or character in keep
        else character.encode("unicode_escape").decode()
        for character in text
    )


def _is_plain(character: str) -> bool:
    # Spaces of all kinds (Zs) are not printable to Python, but for the usual one.
    return character.isprintable() or category(character) == "Zs"
