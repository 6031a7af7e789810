"""Classes of keys as programs have them, and what is sure of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0
    label: str = field(default="", compare=False)


@dataclass(frozen=True)
class Place(Point):
    """Compares the fields of its base, too."""

    name: str = ""


@dataclass(eq=False, frozen=True)
class Inherits(Point):
    """Has a field more, which the equality of its base does not compare."""

    extra: int = 0


class User:
    """Compares by hand."""

    def __init__(self, name: str, age: int) -> None:
        self.name = name
        self.age = age

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, User):
            return NotImplemented
        return self.name == other.name and self.age == other.age

    def __hash__(self) -> int:
        return hash((self.name, self.age))


class HashesLess(User):
    """Its hash is of one of the two."""

    def __hash__(self) -> int:
        return hash(self.name)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: int, b: int) -> None:
        self.a = a
        self.b = b

    def __eq__(self, other: object) -> bool:
        """As tuples."""
        return isinstance(other, Slotted) and (self.a, self.b) == (other.a, other.b)

    def __hash__(self) -> int:
        return hash((self.a, self.b))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


SURE: dict[type, tuple[str, ...]] = {
    Point: ("x", "y"),
    Place: ("x", "y", "name"),
    User: ("name", "age"),
    HashesLess: ("name",),
    Slotted: ("a", "b"),
}


class IgnoresCase(User):
    """Equal where the hashed attributes are not."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IgnoresCase) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


class Either(User):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Either) and (self.name == other.name or self.age == other.age)

    def __hash__(self) -> int:
        return hash(self.name)


class EqualByGuard(User):
    def __eq__(self, other: object) -> bool:
        if isinstance(other, EqualByGuard):
            return True
        return isinstance(other, User) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class ByProperty(User):
    def __init__(self, name: str) -> None:
        super().__init__(name, 0)
        self.reads = 0

    @property
    def counted(self) -> int:
        self.reads += 1
        return self.reads

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByProperty) and self.counted == other.counted

    def __hash__(self) -> int:
        return hash(self.counted)


class Cached(User):
    @cached_property
    def full(self) -> str:
        return f"{self.name} {self.age}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cached) and self.full == other.full

    def __hash__(self) -> int:
        return hash(self.full)


class Intercepts(User):
    def __getattr__(self, name: str) -> Any:
        return name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intercepts) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class PicklesItsWay(User):
    def __reduce__(self) -> Any:
        return PicklesItsWay, (self.name + "!", self.age)


class RenamesItself(User):
    """Both sides of its comparison are one."""

    def __eq__(self, other: object) -> bool:
        if (other := self) is None:
            return False
        return self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Counts:
    """Unpickled, an attribute is assigned once more."""

    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a

    def __setattr__(self, name: str, value: int) -> None:
        object.__setattr__(self, name, value + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.a == other.a

    def __hash__(self) -> int:
        return hash(self.a)


OF_NO_FILE: dict[str, Any] = {"dataclass": dataclass, "__name__": __name__}
exec(  # what a program without a file defines seems to come from where dataclasses has its methods
    """
@dataclass
class ByHand:
    a: int

    def __eq__(self, other):
        return self.a % 10 == other.a % 10

    def __hash__(self):
        return hash(self.a % 10)

@dataclass(frozen=True)
class Generated:
    a: int
    b: str = ""
""",
    OF_NO_FILE,
)
ByHand, Generated = OF_NO_FILE["ByHand"], OF_NO_FILE["Generated"]


class Text(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.upper() == other.upper()

    def __hash__(self) -> int:
        return hash(self.upper())


class Identity:
    """Equal to itself alone."""


SURE[Generated] = ("a", "b")
NOT_SURE = (
    *(Inherits, IgnoresCase, Either, EqualByGuard, ByProperty, Cached, Intercepts, PicklesItsWay),
    *(Text, Identity, RenamesItself, Counts, ByHand),
)
