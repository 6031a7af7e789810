"""Python functions in a recipe: whether they may run here, and whether their modules are unchanged.

A pickled function is a program. A recipe with such functions is signed with a key that the job was given, over
the whole document: which code, called how, over which rows. Code is run only by a trace that was given the same
key, only when the signature fits, and only where nothing that it imports has changed. No other reader unpickles
anything: to them it is text.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
from collections.abc import Mapping

from lineage_core.environment.secrets import secret_from_environment
from lineage_core.errors import FunctionsKeyError
from lineage_core.recipe.document import Recipe

FUNCTIONS_KEY = "LINEAGE_FUNCTIONS_KEY"
FUNCTIONS_KEY_FILE = f"{FUNCTIONS_KEY}_FILE"

KEY_BYTES_MIN = 16
"""Minimum length of a key: a shorter one could be guessed, and the key allows code to be run."""

_PURPOSE = b"lineage recipe with Python functions\0"


def read_key(environment: Mapping[str, str]) -> bytes | None:
    """The key that the environment gives, by file or by value; None: it gives none.

    Raises:
        FunctionsKeyError: its file can't be read, or it is too short.
    """
    text = secret_from_environment(environment, FUNCTIONS_KEY, FunctionsKeyError)
    if not text and not environment.get(FUNCTIONS_KEY_FILE):
        return None
    return parse_key(text)


def parse_key(text: str) -> bytes:
    """A key that was given as text.

    Raises:
        FunctionsKeyError: it is too short.
    """
    key = text.encode("utf-8", "surrogatepass")
    if len(key) < KEY_BYTES_MIN:
        raise FunctionsKeyError(
            f"{FUNCTIONS_KEY}: give at least {KEY_BYTES_MIN} bytes, made by chance"
        )
    return key


def sign_recipe(recipe: Recipe, key: bytes) -> Recipe:
    """The recipe with its signature."""
    return dataclasses.replace(recipe, signature=_signature(recipe, key))


def has_valid_signature(recipe: Recipe, key: bytes) -> bool:
    """Whether the recipe, unchanged, was signed with the key."""
    expected = _signature(recipe, key).encode()
    return hmac.compare_digest(expected, recipe.signature.encode("utf-8", "surrogatepass"))


def _signature(recipe: Recipe, key: bytes) -> str:
    text = dataclasses.replace(recipe, signature="").to_json()
    content = _PURPOSE + text.encode("utf-8", "surrogatepass")
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
