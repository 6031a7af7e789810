"""Conditions on the columns of an output or a source: a small subset of SQL, parsed and rewritten.

What a reader of a server sends becomes part of a statement that Spark runs. So its text is never passed on: it is parsed
by the grammar below, and the statement gets what was understood. There are no functions, no subqueries and no other
tables in it, and no constants that could be read in two ways. Rows of files are tested by the same conditions without
Spark: :mod:`lineage_query.erasure.testing`.

    condition  = all {"OR" all}
    all        = one {"AND" one}
    one        = "NOT" one | "(" condition ")" | column test
    test       = comparison constant | ["NOT"] "BETWEEN" constant "AND" constant
               | ["NOT"] "IN" "(" constant {"," constant} ")" | "IS" ["NOT"] "NULL"
    comparison = "=" | "==" | "<=>" | "<>" | "!=" | "<" | "<=" | ">" | ">="
    constant   = number | 'text' | "TRUE" | "FALSE" | ("DATE" | "TIMESTAMP") 'text'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from lineage_core.errors import LineageError

CHARACTERS_MAX = 4_096
DEPTH_MAX = 50
"""Parentheses and NOTs within each other."""
ACCEPTED_SYNTAX = (
    "taken are comparisons of columns with numbers, 'texts', TRUE, FALSE, DATE '...' and TIMESTAMP '...', IN, BETWEEN "
    "and IS NULL, put together by AND, OR, NOT and parentheses"
)

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?)(?![\w.`])
    | (?P<text>'[^'\\\0]*')(?!\s*')
    | (?P<quoted>`(?:[^`\0]|``)+`)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<comparison><=>|<>|!=|<=|>=|==|=|<|>)
    | (?P<mark>[(),])
    )""",
    re.VERBOSE | re.ASCII,
)
_DATE_OR_TIME = re.compile(r"[0-9][0-9:.+\- TZ]{0,39}", re.ASCII)
_RESERVED = frozenset(
    [
        "ALL",
        "AND",
        "ANY",
        "ARRAY",
        "BETWEEN",
        "CASE",
        "CAST",
        "DATE",
        "DISTINCT",
        "ELSE",
        "END",
        "ESCAPE",
        "EXISTS",
        "FALSE",
        "FROM",
        "ILIKE",
        "IN",
        "INTERVAL",
        "IS",
        "LIKE",
        "NOT",
        "NULL",
        "OR",
        "REGEXP",
        "RLIKE",
        "SELECT",
        "SOME",
        "THEN",
        "TIMESTAMP",
        "TRUE",
        "WHEN",
        "WHERE",
        "X",
    ]
)
"""Words that are not column names unless quoted."""


class ConditionError(LineageError):
    """A condition that a server does not accept; the message lists what it accepts."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: ``kind`` is number, text, boolean, DATE or TIMESTAMP, ``value`` what is between the quotes, if any."""

    kind: str
    value: str

    def sql(self, dollar: str) -> str:
        """Its text in Spark's SQL."""
        quoted = f"'{self.value}'".replace("$", dollar)
        match self.kind:
            case "number" | "boolean":
                return self.value
            case "text":
                return quoted
            case _:
                return f"{self.kind} {quoted}"


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A test of one column. ``operator``: a comparison, BETWEEN, IN or IS NULL; ``negated``: with NOT."""

    column: str
    operator: str
    constants: tuple[Constant, ...] = ()
    negated: bool = False

    def sql(self, dollar: str) -> str:
        """Its text in Spark's SQL."""
        column = f"`{self.column.replace('`', '``')}`"
        negated = "NOT " if self.negated else ""
        constants = [constant.sql(dollar) for constant in self.constants]
        match self.operator:
            case "IS NULL":
                return f"({column} IS {negated}NULL)"
            case "IN":
                return f"({column} {negated}IN ({', '.join(constants)}))"
            case "BETWEEN":
                return f"({column} {negated}BETWEEN {' AND '.join(constants)})"
            case _:
                return f"({column} {self.operator} {constants[0]})"


@dataclass(frozen=True, slots=True)
class AllOrAny:
    """Conditions together: ``operator`` is AND or OR."""

    operator: str
    terms: tuple[ConditionTree, ...]

    def sql(self, dollar: str) -> str:
        """Its text in Spark's SQL."""
        return f"({f' {self.operator} '.join(term.sql(dollar) for term in self.terms)})"


@dataclass(frozen=True, slots=True)
class Negation:
    """The opposite of a condition."""

    term: ConditionTree

    def sql(self, dollar: str) -> str:
        """Its text in Spark's SQL."""
        return f"(NOT {self.term.sql(dollar)})"


ConditionTree: TypeAlias = "ColumnTest | AllOrAny | Negation"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was understood. ``columns``: the names in it; ``source``: its text as typed."""

    tree: ConditionTree
    columns: tuple[str, ...]
    source: str

    @property
    def sql(self) -> str:
        """Its text in Spark's SQL, for a statement or a frame's ``where``."""
        # ``$`` starts a variable that Spark may substitute before it parses.
        return self.tree.sql("\\u0024")

    @property
    def expression(self) -> str:
        """The same for a parser that substitutes no variables: that knows no escapes where ``spark.sql.parser.escapedStringLiterals`` is set."""
        return self.tree.sql("$")

    def check_columns(self, names: Iterable[str]) -> None:
        """Check that an output has each of the columns exactly once, ignoring the case of names.

        Raises:
            ConditionError: it has not.
        """
        output_columns = [name.lower() for name in names]
        for column in self.columns:
            if output_columns.count(column.lower()) != 1:
                several = "several columns" if column.lower() in output_columns else "no column"
                raise ConditionError(f"the output has {several} {column!r}")


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        ConditionError: a server does not accept it.
    """
    if len(text) > CHARACTERS_MAX:
        raise ConditionError(f"a condition has at most {CHARACTERS_MAX:,} characters")
    parser = _Parser(_tokens(text))
    tree = parser.condition(0)
    if parser.kind:
        raise parser.unexpected()
    return Condition(tree, tuple(dict.fromkeys(parser.columns)), text)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    end = len(text.rstrip())
    at = 0
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ConditionError(
                f"{text[at : at + 20]!r} is no part of a condition here: {ACCEPTED_SYNTAX}"
            )
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


@dataclass
class _Parser:
    """Recursive descent; each method returns the part that it parsed."""

    tokens: list[tuple[str, str]]
    columns: list[str] = field(default_factory=list)
    _at: int = 0

    @property
    def kind(self) -> str:
        """Of the next token; empty at the end."""
        return self.tokens[self._at][0] if self._at < len(self.tokens) else ""

    @property
    def _text(self) -> str:
        return self.tokens[self._at][1] if self._at < len(self.tokens) else ""

    def condition(self, depth: int) -> ConditionTree:
        """Several of which one is true."""
        terms = [self._conjunction(depth)]
        while self._takes("OR"):
            terms.append(self._conjunction(depth))
        return terms[0] if len(terms) == 1 else AllOrAny("OR", tuple(terms))

    def _conjunction(self, depth: int) -> ConditionTree:
        terms = [self._factor(depth)]
        while self._takes("AND"):
            terms.append(self._factor(depth))
        return terms[0] if len(terms) == 1 else AllOrAny("AND", tuple(terms))

    def _factor(self, depth: int) -> ConditionTree:
        if depth > DEPTH_MAX:
            raise ConditionError(
                f"a condition has at most {DEPTH_MAX} parentheses within each other"
            )
        if self._takes("NOT"):
            return Negation(self._factor(depth + 1))
        if self._takes("("):
            inner = self.condition(depth + 1)
            self._expect(")")
            return inner
        return self._test(self._column())

    def _column(self) -> str:
        if self.kind == "quoted":
            name = self._text[1:-1].replace("``", "`")
        elif self.kind == "word" and self._text.upper() not in _RESERVED:
            name = self._text
        else:
            raise self.unexpected()
        self._at += 1
        self.columns.append(name)
        return name

    def _test(self, column: str) -> ColumnTest:
        if self.kind == "comparison":
            comparison = self._text
            self._at += 1
            return ColumnTest(column, comparison, (self._constant(),))
        if self._takes("IS"):
            negated = self._takes("NOT")
            self._expect("NULL")
            return ColumnTest(column, "IS NULL", negated=negated)
        negated = self._takes("NOT")
        if self._takes("BETWEEN"):
            low = self._constant()
            self._expect("AND")
            return ColumnTest(column, "BETWEEN", (low, self._constant()), negated)
        if self._takes("IN"):
            self._expect("(")
            constants = [self._constant()]
            while self._takes(","):
                constants.append(self._constant())
            self._expect(")")
            return ColumnTest(column, "IN", tuple(constants), negated)
        raise self.unexpected()

    def _constant(self) -> Constant:
        kind, text = self.kind, self._text
        if kind == "word" and text.upper() in {"DATE", "TIMESTAMP"}:
            self._at += 1
            literal = self._text
            if self.kind != "text" or not _DATE_OR_TIME.fullmatch(literal[1:-1]):
                raise self.unexpected()
            self._at += 1
            return Constant(text.upper(), literal[1:-1])
        if kind == "word" and text.upper() in {"TRUE", "FALSE"}:
            self._at += 1
            return Constant("boolean", text.upper())
        if kind not in {"number", "text"}:
            raise self.unexpected()
        self._at += 1
        return Constant(kind, text[1:-1] if kind == "text" else text)

    def _takes(self, word: str) -> bool:
        if self.kind in {"word", "mark"} and self._text.upper() == word:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise self.unexpected()

    def unexpected(self) -> ConditionError:
        """The error for an unexpected token."""
        token = repr(self._text) if self.kind else "the end"
        return ConditionError(f"{token} is not taken here in a condition: {ACCEPTED_SYNTAX}")
