"""Removes secrets from the arguments of a program: by the names of options, and by what is known to be one."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

REDACTED = "***"
COMMANDS_DEEP = 3
"""How deep command lines in arguments of command lines are looked into."""
_BLANK = re.compile(r"\s")
_SECRET_WORD = re.compile(
    r".*(password|passwd|passphrase|secret|apikey|accesskey|secretkey|privatekey)s?"
    r"|(db|user|my|root|admin)?pass|passcode|psw|pwd|token|auth|authorization|bearer|credentials?|cookie"
)
_KEYS = frozenset({"api", "access", "account", "private", "signing", "encryption", "shared"})
"""``key`` behind one of these is a secret; by itself it is a key of records."""
_NO_SECRET = frozenset(
    {"file", "path", "location", "name", "id", "type", "url", "length"}
    | {"provider", "limit", "count", "column", "columns", "ttl", "timeout", "expiry", "enabled"}
)
"""Last words of options that hold the place, the name or the number of secrets, not a secret."""
_PLAIN_VALUE = re.compile(r"(?i)true|false|yes|no|on|off|none|null|")
"""Values that switch something: no secret, whatever their option is called."""
_USER = re.compile(r"-u|-u[A-Za-z]\S{0,100}|--(user|username|login)(=.{0,200})?", re.ASCII)
_SHORT = re.compile(r"-p(.{1,500})", re.DOTALL)
_USUAL_SHORT = re.compile(r"[A-Za-z][a-z-]*|[\w.-]*[/=:].*|\d+", re.DOTALL | re.ASCII)
"""What stands behind ``-p`` without a user: an option of a long name (-print), a path, a mapping, a port."""
_LONG_OPTION = re.compile(
    r"-(page|pages|parallel|parallelism|param|params|parameters|parents|partition|partitions|pass|passes|passwd|password"
    r"|path|paths|pattern|perm|period|phase|pid|pipe|pipeline|platform|plugin|plugins|pool|port|ports|precision|prefix"
    r"|preserve|pretty|preview|principal|print|print0|printf|priority|process|processes|prod|profile|profiles|progress"
    r"|project|projects|prompt|properties|property|props|protocol|provider|proxy|prune|publish|pull|purge|push|python)"
)
"""Options of a long name that no password is called: also beside a user, where ``-p`` gives one."""
_PORT = re.compile(r"\d{1,5}(:\d{1,5})?")
_USER_AND_PASSWORD = re.compile(r"([^\s:/@=]{1,100}):(?!\d+$)[^\s/]\S{0,500}")
"""Of ``-u``, as curl takes it; two numbers are those of a user and a group."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OPTION = re.compile(r"-{0,2}([A-Za-z][\w.-]{0,200})=", re.ASCII)
_FLAG = re.compile(r"--?([A-Za-z][\w.-]{0,200})", re.ASCII)
# Each part is bounded: texts of any length are read in a time that grows with their length alone.
_ESCAPE = r"%(?:25){0,3}"
"""Begins a sign of a URL, which may be encoded again and again."""
_QUOTE = rf"(?:\\|{_ESCAPE}5[cC]){{0,31}}(?:[\"']|{_ESCAPE}2[27])"
"""Also of JSON in a text of JSON, and in a URL."""
_SPACE = rf"(?:\s|{_ESCAPE}20){{0,8}}"
_IS = rf"(?:\]|{_ESCAPE}5[dD])?(?:{_QUOTE})?{_SPACE}(?:[=:]|{_ESCAPE}3[dDaA]){_SPACE}"
"""Between a name and its value."""
# As in {0,8}+ and {0,100}+, which Python reads since 3.11: a text that looks ahead gives nothing back.
_NAME = (
    rf"(?=(?P<signs>(?:{_ESCAPE}[0-9A-Fa-f]{{2}}){{0,8}}))(?P=signs)"
    r"(?P<name>[A-Za-z](?=(?P<rest>[\w.-]{0,100}))(?P=rest))"
)
_NAMED = re.compile(_NAME + _IS, re.ASCII)
_PAIR = re.compile(
    rf"(?i:name|key|option|property|variable|parameter){_IS}(?:{_QUOTE})?{_NAME}", re.ASCII
)
"""As in ``{"name": "password", "value": "X"}``, ``Key=password,Value=X``."""
_PAIR_VALUE = re.compile(rf"(?i:values?){_IS}", re.ASCII)
_PAIR_SIGNS_MAX = 8_000
"""Between the two: a value of 40 signs that are escaped in JSON in JSON, five times, and in a URL twice."""
_VALUES_BEFORE_MAX = 8
_BRACES = re.compile(rf"[{{}}]|{_ESCAPE}7[bBdD]")
_OPENS = re.compile(rf"((?:\\|{_ESCAPE}5[cC]){{0,31}})([\"']|{_ESCAPE}2[27])")
_BRACKETS = re.compile(r"[\[\]{}\"']")
_BARE = re.compile(r"((Bearer|Basic|Digest)\s{1,8})?[^\s&;,\"'}]+", re.IGNORECASE)
_LOGIN = re.compile(r"(://[^\s/?#:@]{0,200}):[^\s/?#]{1,500}@")
_ENCODED_LOGIN = re.compile(
    rf"({_ESCAPE}3[aA](?:{_ESCAPE}2[fF]){{2}}(?:(?!{_ESCAPE}(?:2[fF]|3[aA]|40))[^\s/?#:@&]){{0,200}}{_ESCAPE}3[aA])"
    rf"(?:(?!{_ESCAPE}(?:2[fF]|40))[^\s/?#:@&]){{1,500}}({_ESCAPE}40)"
)
_BARE_LOGIN = re.compile(
    r"(?<![\w.:/@-])(?!(?i:mailto|sips?|xmpp):)([A-Za-z][\w.-]{0,63}):(?!\d\d?(?::\d\d)?@)([^\s/@:]{1,200})@(?!sha\d)(?=[\w\[])",
    re.ASCII,
)
"""``user:password@host`` without a scheme; not an image with its digest, nor a time with its place."""
_ORACLE = re.compile(r"(jdbc:oracle:\w{1,10}:[^\s/@:]{1,100})/[^\s@]{1,200}@")
_SIGNATURE = re.compile(
    r"(?i)([?&](?:sig|signature|x-amz-signature|x-goog-signature)=)[^\s&#\"']{1,1000}"
)
_BASE64_40 = re.compile(r"(?<![\w+/=.-])[A-Za-z0-9+/]{40}(?![\w+/=.-])", re.ASCII)
_CHANGES_MIN = 16
"""Of the 39 pairs of neighbours in a random text of Base64 about 25 are of other kinds; in paths hardly 12."""
_WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]{3,}")
_SPOKEN = re.compile(r"(?i)(?=.*[aeiouy])(?!.*[^aeiouy]{5}).*")
_NAME_SIGNS_MIN = 18
"""Characters in pronounceable words, as in names of classes; one of 1,000 random texts has as many."""
_OTHERS_MIN = 3
"""Digits and signs in it; a random one has 7 or 8."""
_TOKEN_FORMS = re.compile(
    r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\beyJ[\w-]{10,4000}\.[\w-]{10,8000}\.[\w-]{0,2000}"
    r"|\bgh[pousr]_\w{20,200}|\bglpat-[\w-]{20,200}|\bxox[abprs]-[\w-]{10,200}|\blm_[\w-]{43}\b"
    r"|\bgithub_pat_\w{20,200}|\bdapi[0-9a-f]{32}\b|\bAIza[\w-]{35}\b|\bhvs\.[\w-]{20,200}"
    r"|\b[sr]k_live_\w{16,200}|\bnpm_\w{36}\b|\bpypi-[\w-]{40,400}"
    r"|(?<![\w+/-])[A-Za-z0-9+/]{86}==(?![\w+/=])"
    r"|(?<=\b[Bb]earer )[\w.~+/=-]{8,4000}|(?<=\bBasic )(?=[a-z+/]{0,40}[0-9A-Z=])[\w+/]{8,4000}={0,2}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*",
    re.DOTALL | re.ASCII,
)


def redact_arguments(arguments: Sequence[str], more: Collection[str] = ()) -> tuple[str, ...]:
    """The arguments of a program with ``***`` in place of secrets.

    Hidden are values of options with a secret's name (``--password=X``, ``--token X``, ``spark.my.secret=X``, also within
    an argument, in an argument that is a command line, in JSON in JSON, encoded in URLs, and of objects that hold the name beside the value), passwords in URLs, beside a user (``-u ann -p X``, ``-pX``, ``-u ann:X``, ``ann:X@host``), and what is
    known by its form (keys of AWS and Azure, tokens of GitHub, Databricks and others, JWTs, private keys).

    Args:
        arguments: as in ``sys.argv``.
        more: further words that make the value of an option a secret where its name holds them, in lower case.
    """
    return tuple(_redact_all(arguments, frozenset(more)))


def without_secrets(text: str) -> str:
    """A text as an argument by itself, without secrets; see :func:`redact_arguments`."""
    (argument,) = redact_arguments([text])
    return argument


def _redact_all(arguments: Sequence[str], more: frozenset[str], depth: int = 0) -> Iterator[str]:
    has_user = any(map(_USER.fullmatch, arguments))
    previous = ""
    for argument in arguments:
        yield _redact_argument(argument, previous, more, depth, has_user=has_user)
        previous = argument


def _redact_argument(
    argument: str, previous: str, more: frozenset[str], depth: int, *, has_user: bool
) -> str:
    """An argument that follows another one."""
    flag = _FLAG.fullmatch(previous)
    if flag is not None and not argument.startswith("--") and not _PLAIN_VALUE.fullmatch(argument):
        if _is_secret(flag[1], more):
            return REDACTED
        if previous == "-p" and has_user and not _PORT.fullmatch(argument):
            return REDACTED
        login = _USER_AND_PASSWORD.fullmatch(argument) if previous in ("-u", "--user") else None
        if login is not None:
            return f"{login[1]}:{REDACTED}"
    short = None if _LONG_OPTION.fullmatch(argument) else _SHORT.fullmatch(argument)
    if short is not None and not (_PORT if has_user else _USUAL_SHORT).fullmatch(short[1]):
        return f"-p{REDACTED}"
    return _redact_command(_redact_text(argument, more), more, depth)


def _redact_command(argument: str, more: frozenset[str], depth: int) -> str:
    """An argument that may be a command line of its own, as of a shell or a mapper; its quotes go where one of its words does."""
    if depth == COMMANDS_DEEP or "-" not in argument or not _BLANK.search(argument):
        return argument
    try:
        words = shlex.split(argument)
    except ValueError:
        # A quote that is not closed.
        words = argument.split()
    redacted = list(_redact_all(words, more, depth + 1))
    return argument if redacted == words else " ".join(redacted)


def _redact_text(argument: str, more: frozenset[str]) -> str:
    begin = 0
    # As --conf=spark.my.password=X: whatever the secret holds, all of the rest belongs to it.
    while (option := _OPTION.match(argument, begin)) is not None:
        begin = option.end()
        if _is_secret(option[1], more) and not _PLAIN_VALUE.fullmatch(argument, begin):
            return argument[:begin] + REDACTED
    text = "".join(_redact_named(_redact_paired(argument, more), more))
    text = _LOGIN.sub(rf"\1:{REDACTED}@", _ENCODED_LOGIN.sub(rf"\1{REDACTED}\2", text))
    text = _ORACLE.sub(rf"\1/{REDACTED}@", text)
    text = _SIGNATURE.sub(rf"\1{REDACTED}", _BARE_LOGIN.sub(rf"\1:{REDACTED}@", text))
    return _BASE64_40.sub(_redact_random, _TOKEN_FORMS.sub(REDACTED, text))


def _redact_random(match: re.Match[str]) -> str:
    """What may be a secret key of AWS, which has no form but that it is random: not a path, a name or a SHA-1."""
    kinds = ["a" if char.islower() else "A" if char.isupper() else "1" for char in match[0]]
    changes = sum(kind != next_kind for kind, next_kind in pairwise(kinds))
    is_random = set(kinds) == set("aA1") and kinds.count("1") >= _OTHERS_MIN
    return (
        REDACTED if is_random and changes >= _CHANGES_MIN and not _is_name(match[0]) else match[0]
    )


def _is_name(text: str) -> bool:
    """Whether it is made of words, as the name of a class."""
    words = _WORD_OF_NAME.findall(text)
    signs = sum(len(word) for word in words if len(word) > 3)
    return text.isalnum() and signs >= _NAME_SIGNS_MIN and all(map(_SPOKEN.fullmatch, words))


def _redact_named(text: str, more: frozenset[str]) -> Iterator[str]:
    at = 0
    while (name_match := _NAMED.search(text, at)) is not None:
        yield text[at : name_match.end()]
        at = name_match.end()
        end = _value_end(text, at) if _is_secret(name_match["name"], more) else at
        if not _PLAIN_VALUE.fullmatch(text, at, end):
            yield REDACTED
            at = end
    yield text[at:]


def _redact_paired(text: str, more: frozenset[str]) -> str:
    """Redact values in objects that hold a secret's name in a neighbouring field, before or after the value."""
    pairs = [pair for pair in _PAIR.finditer(text) if _is_secret(pair["name"], more)]
    if not pairs:
        return text
    parts, at = list[str](), 0
    values = _Values(text)
    for pair in pairs:
        if pair.start() < at:
            continue
        begin = values.of(pair)
        if values.are_too_many:
            return "".join(parts) + REDACTED
        if begin < at:
            continue
        end = _value_end(text, begin)
        if not _PLAIN_VALUE.fullmatch(text, begin, end):
            parts += text[at:begin], REDACTED
            at = end
    return "".join(parts) + text[at:]


class _Values:
    """The positions of values in a text that may belong to names near them: each is read once, within limits."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._value_spans = [match.span() for match in _PAIR_VALUE.finditer(text)]
        self._braces = [match.span() for match in _BRACES.finditer(text)]
        self._ends: dict[int, int] = {}
        self._remaining_signs = _VALUES_BEFORE_MAX * (len(text) + _PAIR_SIGNS_MAX)

    @property
    def are_too_many(self) -> bool:
        """Whether they are nested deeper than is parsed."""
        return self._remaining_signs < 0

    def of(self, pair: re.Match[str]) -> int:
        """The index at which the value of a name begins; -1: there is none near it within the same brackets."""
        text = self._text
        stop = text.find("}", pair.end(), pair.end() + _PAIR_SIGNS_MAX)
        stop = min(pair.end() + _PAIR_SIGNS_MAX, len(text)) if stop < 0 else stop
        following = bisect_left(self._value_spans, (pair.end(), 0))
        if following < len(self._value_spans) and self._value_spans[following][1] <= stop:
            return self._value_spans[following][1]
        first = bisect_left(self._value_spans, (pair.start() - _PAIR_SIGNS_MAX, 0))
        last = bisect_left(self._value_spans, (pair.start(), 0))
        brace = bisect_left(self._braces, (pair.start(), 0)) - 1
        # The first of the same object: a value may hold what looks like another.
        for _, begin in self._value_spans[max(first, last - _VALUES_BEFORE_MAX) : last]:
            end = self._end(begin)
            if end <= pair.start() and (brace < 0 or self._braces[brace][0] < end):
                return begin
        return -1

    def _end(self, begin: int) -> int:
        """The index at which a value ends; after all names that may belong to it if it does not end before them."""
        if begin not in self._ends:
            near = self._text[begin : begin + _PAIR_SIGNS_MAX + 1]
            end = _value_end(near, 0) if self._remaining_signs >= 0 else len(near)
            self._remaining_signs -= end
            self._ends[begin] = begin + end
        return self._ends[begin]


def _value_end(text: str, at: int) -> int:
    """Where a value ends: at its own quote or bracket, with all of the rest where these do not end."""
    quote = _OPENS.match(text, at)
    if quote is not None:
        end = _quoted_end(text, quote)
        return len(text) if end < 0 else end
    if text[at : at + 1] in ("[", "{"):
        return _bracketed_end(text, at)
    bare = _BARE.match(text, at)
    return at if bare is None else bare.end()


def _quoted_end(text: str, opening: re.Match[str]) -> int:
    """The index after the closing quote; -1: there is none.

    A quote within has more backslashes: those of a level of escaping are twice as many, and one.
    """
    quote = opening[2]
    # Encoded as often as the quote is: %22 and %5c, %2522 and %255c.
    slash = f"{quote[:-2]}5c" if "%" in quote else "\\"
    level = len(opening[1]) if slash == "\\" else opening[1].lower().count("5c")
    at = opening.end()
    while (quote_at := text.find(quote, at)) >= 0:
        begin = quote_at
        while begin > opening.end() and text[begin - len(slash) : begin].lower() == slash:
            begin -= len(slash)
        if (quote_at - begin) // len(slash) % (2 * (level + 1)) == level:
            return quote_at + len(quote)
        at = quote_at + len(quote)
    return -1


def _bracketed_end(text: str, at: int) -> int:
    depth, unended = 0, set[str]()
    while (sign := _BRACKETS.search(text, at)) is not None:
        at = sign.end()
        if sign[0] in "[{":
            depth += 1
        elif sign[0] in "]}":
            depth -= 1
            if depth <= 0:
                return at
        elif sign[0] not in unended:
            quote = _OPENS.match(text, sign.start())
            end = -1 if quote is None else _quoted_end(text, quote)
            if end < 0:
                unended.add(sign[0])
            else:
                at = end
    return len(text)


def _is_secret(name: str, more: frozenset[str]) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _NO_SECRET:
        return False
    if any(_SECRET_WORD.fullmatch(word) or word in more for word in words):
        return True
    pairs = list(pairwise(words))
    return ("azure", "sas") in pairs or any(word == "key" and of in _KEYS for of, word in pairs)
