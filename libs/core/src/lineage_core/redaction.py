"""Secrets in the arguments of a program are not kept: by the names of options, and by what is known to be one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

HIDDEN = "***"
_SECRET_WORD = re.compile(
    r".*(password|passwd|passphrase|secret|apikey|accesskey|secretkey|privatekey)s?"
    r"|pass|pwd|token|auth|authorization|bearer|credentials?|cookie"
)
_KEYS = frozenset({"api", "access", "account", "private", "signing", "encryption", "shared"})
"""``key`` behind one of these is a secret; by itself it is a key of records."""
_NO_SECRET = frozenset({"file", "path", "location", "name", "id", "type", "url", "length"})
"""Last words of options that say where a secret is, or what it is called."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OPTION = re.compile(r"-{0,2}([A-Za-z][\w.-]{0,200})=", re.ASCII)
_FLAG = re.compile(r"--?([A-Za-z][\w.-]{0,200})", re.ASCII)
# Each part is bounded: texts of any length are read in a time that grows with their length alone.
_NAMED = re.compile(r"([A-Za-z][\w.-]{0,100}+)[\"']?\s{0,8}[=:]\s{0,8}", re.ASCII)
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|((Bearer|Basic|Digest)\s{1,8})?[^\s&;,\"'}]+", re.I)
_LOGIN = re.compile(r"(://[^\s/?#:@]{0,200}):[^\s/?#]{1,500}@")
_KNOWN = re.compile(
    r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\beyJ[\w-]{10,4000}\.[\w-]{10,8000}\.[\w-]{0,2000}"
    r"|\bgh[pousr]_\w{20,200}|\bglpat-[\w-]{20,200}|\bxox[abprs]-[\w-]{10,200}|\blm_[\w-]{43}\b"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*",
    re.DOTALL | re.ASCII,
)


def redacted(arguments: Sequence[str], more: Collection[str] = ()) -> tuple[str, ...]:
    """The arguments of a program with ``***`` in place of secrets.

    Hidden are values of options whose name says so (``--password=X``, ``--token X``, ``spark.my.secret=X``, also within
    an argument), passwords in URLs, and what is known by its form (keys of AWS, tokens of GitHub, JWTs, private keys).

    Args:
        arguments: as in ``sys.argv``.
        more: further words that make the value of an option a secret where its name holds them, in lower case.
    """
    return tuple(_all(arguments, frozenset(more)))


def _all(arguments: Sequence[str], more: frozenset[str]) -> Iterator[str]:
    is_value = False
    for argument in arguments:
        if is_value and not argument.startswith("--"):
            is_value = False
            yield HIDDEN
            continue
        flag = _FLAG.fullmatch(argument)
        is_value = flag is not None and _is_secret(flag[1], more)
        yield _one(argument, more)


def _one(argument: str, more: frozenset[str]) -> str:
    begin = 0
    # As --conf=spark.my.password=X: whatever the secret holds, all of the rest belongs to it.
    while (option := _OPTION.match(argument, begin)) is not None:
        begin = option.end()
        if _is_secret(option[1], more):
            return argument[:begin] + HIDDEN
    text = "".join(_without_named(argument, more))
    return _KNOWN.sub(HIDDEN, _LOGIN.sub(rf"\1:{HIDDEN}@", text))


def _without_named(text: str, more: frozenset[str]) -> Iterator[str]:
    at = 0
    while (named := _NAMED.search(text, at)) is not None:
        yield text[at : named.end()]
        at = named.end()
        value = _VALUE.match(text, at) if _is_secret(named[1], more) else None
        if value is not None:
            yield HIDDEN
            at = value.end()
    yield text[at:]


def _is_secret(name: str, more: frozenset[str]) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _NO_SECRET:
        return False
    if any(_SECRET_WORD.fullmatch(word) or word in more for word in words):
        return True
    return any(word == "key" and before in _KEYS for before, word in pairwise(words))
