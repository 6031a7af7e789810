"""How suspect a row or a task is by the outputs that it went into, bad ones and good ones: spectrum-based fault localisation.

The formulas are those of programs' statements, with outputs for tests: Ochiai (R. Abreu, P. Zoeteweij and A. van Gemund, PRDC 2006), Tarantula
(J. Jones and M. Harrold, ASE 2005) and DStar with the exponent 2 (W. E. Wong et al., IEEE Transactions on Reliability 63:1, 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

Formula: TypeAlias = Literal["ochiai", "tarantula", "dstar"]
FORMULAS: tuple[Formula, ...] = get_args(Formula)


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Outputs that something went into, of all bad and of all good ones. ``bad_all`` is at least 1."""

    bad: int
    good: int
    bad_all: int
    good_all: int

    @property
    def is_suspect(self) -> bool:
        """Whether it went into a greater share of the bad outputs than of the good ones; without good ones, whether it went into any bad one.

        What went into as great a share of the good outputs tells nothing of the bad ones, whatever a formula gives.
        """
        if not self.good_all:
            return self.bad > 0
        return self.bad * self.good_all > self.good * self.bad_all

    def key(self, formula: Formula) -> tuple[bool, bool, Fraction]:
        """What things are ranked by, the greatest first: exact, so that equal ones are equal.

        Where it is the square of Ochiai, the order is the same. The second part: DStar is without bound.
        """
        if not self.is_suspect:
            return (False, False, Fraction(0))
        missed = self.bad_all - self.bad
        match formula:
            case "ochiai":
                return (True, False, Fraction(self.bad**2, self.bad_all * (self.bad + self.good)))
            case "tarantula":
                bad_share = Fraction(self.bad, self.bad_all)
                good_share = Fraction(self.good, max(self.good_all, 1))
                return (True, False, bad_share / (bad_share + good_share))
            case "dstar":
                if self.good + missed == 0:
                    return (True, True, Fraction(self.bad**2))
                return (True, False, Fraction(self.bad**2, self.good + missed))

    def score(self, formula: Formula) -> float | None:
        """The value of the formula, 0 for what is not suspect; None: without bound (DStar)."""
        _, is_unbounded, value = self.key(formula)
        if is_unbounded:
            return None
        return math.sqrt(value) if formula == "ochiai" else float(value)

    def to_text(self) -> str:
        """In words: of how many outputs."""
        text = f"{self.bad:,} of {self.bad_all:,} bad"
        return (
            f"{text} and {self.good:,} of {self.good_all:,} good outputs"
            if self.good_all
            else f"{text} outputs"
        )
