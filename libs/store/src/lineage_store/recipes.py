"""Recipes of DataFrames in stores: a plan is text of a few kilobytes that repeats itself."""

from __future__ import annotations

from lineage_core.errors import FrameError
from lineage_core.message import MESSAGE_BYTES_MAX, Message, Recipe, parse_message
from lineage_core.zstd import compress, decompress
from lineage_store.errors import StoreError

LEVEL = 9
"""Of zstd: a recipe is written once, and takes a millisecond."""


def packed_body(body: str) -> bytes:
    """The body of a recipe's message, compressed."""
    return compress(body.encode(), LEVEL)


def parse_body(body: str | bytes) -> Message:
    """A stored message; bytes are compressed ones.

    Raises:
        StoreError: the bytes are damaged.
        ContractError: it is no message.
    """
    if isinstance(body, str):
        return parse_message(body)
    try:
        return parse_message(decompress(body, MESSAGE_BYTES_MAX))
    except FrameError as error:
        raise StoreError(f"a stored recipe can't be read: {error}") from error


def recipe_in(body: str | bytes) -> str:
    """The recipe that a stored message brought.

    Raises:
        StoreError: the bytes are damaged, or the message brings none.
    """
    message = parse_body(body)
    if not isinstance(message, Recipe):
        raise StoreError(f"a stored recipe is a message of type {message.type}")
    return message.recipe
