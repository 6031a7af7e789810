"""What suspects are listed: rows, tasks and keys, as tools read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lineage_core.contract.reasons import listed_reasons
from lineage_query.answers import Item, listed_warnings
from lineage_query.suspects.health import Deviation
from lineage_query.suspects.spectrum import Formula, Spectrum


@dataclass(frozen=True, slots=True)
class Rank:
    """The place in a ranking: ``rank`` (from 1), which ``tied`` suspects share, by ``score`` (None: without bound)."""

    rank: int
    tied: int
    score: float | None

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {"rank": self.rank, "tied": self.tied, "score": self.score}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Rank:
        """Read what :meth:`to_json` gave."""
        return cls(document["rank"], document["tied"], document["score"])


@dataclass(frozen=True, slots=True)
class SuspectRow:
    """An input of ``outputs`` of the bad outputs, and of ``good_outputs`` of the good ones."""

    node: str
    label: str
    item: Item
    outputs: int
    good_outputs: int
    place: Rank

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {
            "node": self.node,
            "name": self.label,
            **self.item.to_json(),
            "outputs": self.outputs,
            "good_outputs": self.good_outputs,
            **self.place.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SuspectRow:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            document["node"],
            document["name"],
            Item.from_json(dict(document)),
            document["outputs"],
            document["good_outputs"],
            Rank.from_json(document),
        )


@dataclass(frozen=True, slots=True)
class SuspectTask:
    """A task, by the operator at its end and its partition, with what makes it suspect: outputs, and how it stands out among others."""

    node: str
    label: str
    partition: int
    operators: str
    outputs: int
    good_outputs: int
    deviations: tuple[Deviation, ...]
    place: Rank

    def reasons(self, outputs: int, good_outputs: int) -> list[str]:
        """Why it is suspect, in words and numbers; ``outputs``, ``good_outputs``: all bad and all good ones."""
        spectrum = Spectrum(self.outputs, self.good_outputs, outputs, good_outputs)
        by_outputs = [f"on the way to {spectrum.to_text()}"] if outputs else []
        return [*by_outputs, *(deviation.reason for deviation in self.deviations)]

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {
            "node": self.node,
            "name": self.label,
            "partition": self.partition,
            "operators": self.operators,
            "outputs": self.outputs,
            "good_outputs": self.good_outputs,
            "deviations": [deviation.to_json() for deviation in self.deviations],
            **self.place.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SuspectTask:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            document["node"],
            document["name"],
            document["partition"],
            document["operators"],
            document["outputs"],
            document["good_outputs"],
            tuple(map(Deviation.from_json, document["deviations"])),
            Rank.from_json(document),
        )


@dataclass(frozen=True, slots=True)
class SuspectKey:
    """A key of a shuffle that combines unusually many or few records, and the first rows of outputs that it went into, of ``rows_total``."""

    node: str
    label: str
    address: str
    deviation: Deviation
    rows: tuple[Item, ...]
    rows_total: int

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {
            "node": self.node,
            "name": self.label,
            "address": self.address,
            "deviation": self.deviation.to_json(),
            "rows": [item.to_json() for item in self.rows],
            "rows_total": self.rows_total,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SuspectKey:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            document["node"],
            document["name"],
            document["address"],
            Deviation.from_json(document["deviation"]),
            tuple(map(Item.from_json, document["rows"])),
            document["rows_total"],
        )


@dataclass(frozen=True, slots=True)
class Suspects:
    """Suspects of an application, by rows of its outputs or, without any, by its health alone.

    ``requested_places``: of the bad outputs; ``good_places``: of the good ones. ``total``: inputs of the bad outputs, of which ``suspected`` are
    suspect. ``exact``: the counts are those of the very inputs; else ``reasons`` say why they may be too high. ``complete``: no lineage is missing.
    ``tasks``: the first of ``tasks_total`` suspect ones; ``keys``: likewise, of the health alone.
    """

    app: str
    requested_places: tuple[str, ...]
    items: tuple[SuspectRow, ...]
    total: int
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    changed: bool
    warnings: tuple[str, ...]
    good_places: tuple[str, ...] = ()
    formula: Formula = "ochiai"
    suspected: int = 0
    tasks: tuple[SuspectTask, ...] = ()
    tasks_total: int = 0
    keys: tuple[SuspectKey, ...] = ()
    keys_total: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", listed_reasons(self.reasons))
        object.__setattr__(self, "warnings", listed_warnings(self.warnings, self.complete))

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {
            "app": self.app,
            "from": list(self.requested_places),
            "outputs": len(self.requested_places),
            "items": [item.to_json() for item in self.items],
            "total": self.total,
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "changed": self.changed,
            "warnings": list(self.warnings),
            "good": list(self.good_places),
            "formula": self.formula,
            "suspected": self.suspected,
            "tasks": [task.to_json() for task in self.tasks],
            "tasks_total": self.tasks_total,
            "keys": [key.to_json() for key in self.keys],
            "keys_total": self.keys_total,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Suspects:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            document["app"],
            tuple(document["from"]),
            tuple(map(SuspectRow.from_json, document["items"])),
            document["total"],
            document["exact"],
            tuple(document["reasons"]),
            document["complete"],
            document["changed"],
            tuple(document["warnings"]),
            tuple(document["good"]),
            document["formula"],
            document["suspected"],
            tuple(map(SuspectTask.from_json, document["tasks"])),
            document["tasks_total"],
            tuple(map(SuspectKey.from_json, document["keys"])),
            document["keys_total"],
        )
