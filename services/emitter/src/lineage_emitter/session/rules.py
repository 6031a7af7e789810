"""What nodes show beyond stage level, and which records are captured: settings, node by node.

Rules come from a file (TOML: ``[[rule]]`` tables; JSON: a list) or from the setting itself (JSON).
They apply in order; what a later one says of a node stands.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lineage_core.environment.toml import tomllib
from lineage_emitter.errors import SettingsError
from lineage_emitter.session.hooks import load_hook
from lineage_emitter.session.watched import Watched
from lineage_emitter.settings import Settings
from lineage_emitter.worker.detail import CaptureLimit, Detail
from lineage_emitter.worker.values import ReprEncoder, ValueTexts, json_text
from lineage_store.watch_folder import WatchableNode

_READ_AGAIN = frozenset(("textFile", "saveAsTextFile"))
"""Their rows stand in files, where a trace reads them."""


class CaptureRule(BaseModel):
    """For nodes that fit all patterns (``*`` and ``?`` as in file names).

    ``node``: a name (``reduceByKey``), an alias (``read``), a source's path, or a part of a
    composed operator (``distinct/map``). ``call_site``: ``job.py:14``. What follows is said of
    those nodes; None says nothing. ``filter``, ``keys`` (``module:function``, of a record and of
    its key) and ``sample`` choose records, ``of`` says for what.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str = "*"
    call_site: str = "*"
    detailed: bool | None = None
    values: bool | None = None
    capture: bool | None = None
    granularity: Literal["row", "key"] | None = None
    filter: str = ""
    keys: str = ""
    sample: float = Field(1.0, ge=0.0, le=1.0)
    of: Literal["capture", "values"] = "capture"

    def limit(self) -> CaptureLimit | None:
        """Which records it chooses; None: all.

        Raises:
            SettingsError: a predicate can't be loaded.
        """
        if not (self.filter or self.keys or self.sample < 1.0):
            return None
        return CaptureLimit(
            record=load_hook(self.filter, "filter") if self.filter else None,
            key=load_hook(self.keys, "keys") if self.keys else None,
            share=self.sample,
        )


class Details:
    """Says what each node shows, by the settings.

    Raises:
        SettingsError: rules can't be read, or name what can't be loaded.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._texts = _texts(settings)
        self._rules = [(rule, rule.limit()) for rule in read_rules(settings.rules)]
        self.watched: Watched | None = None
        """What lets operators be watched, once the application has begun."""

    def of(self, node: str, fields: dict[str, Any], name: str) -> Detail:
        """What a node shows. ``fields``: of its registration."""
        items = self._settings.detailed and fields["kind"] != "source"
        texts = self._settings.detailed and self._settings.values
        texts = texts and fields["op"] not in _READ_AGAIN
        granularity: str = self._settings.granularity
        limit = texts_of = None
        for rule, chosen in self._rules:
            if not _matches(rule, fields, name):
                continue
            items = items if rule.detailed is None else rule.detailed
            texts = texts if rule.values is None else rule.values
            granularity = rule.granularity or granularity
            if rule.of == "values":
                texts_of = chosen or texts_of
            elif _is_complete_operator(rule, fields, name):
                limit = chosen or limit
                if rule.capture is not None:
                    limit = None if rule.capture else CaptureLimit(nothing=True)
        shown = self._texts if texts else None
        watched = None
        if self.watched is not None and fields["kind"] == "operator":
            facts = WatchableNode(node, name, fields["op"], fields["call_site"])
            watched = self.watched.operator(facts, self._texts if self._settings.values else None)
        return Detail(node, items, shown, texts_of, limit, granularity == "key", watched)


def _matches(rule: CaptureRule, fields: dict[str, Any], name: str) -> bool:
    if not fnmatchcase(fields["call_site"], rule.call_site):
        return False
    names = (name, f"{name}/{fields['op']}", fields["alias"] or "", fields["path"] or "")
    return any(fnmatchcase(candidate, rule.node) for candidate in names if candidate)


def _is_complete_operator(rule: CaptureRule, fields: dict[str, Any], name: str) -> bool:
    """Whether records are the operator's own: a composed one's parts have other records."""
    part = f"{name}/{fields['op']}"
    return fields["op"] == name or ("/" in rule.node and fnmatchcase(part, rule.node))


def _texts(settings: Settings) -> ValueTexts:
    match settings.value_encoder:
        case "repr":
            encode: Any = ReprEncoder(settings.value_length)
        case "json":
            encode = json_text
        case named:
            encode = load_hook(named, "value_encoder")
    redact = load_hook(settings.redact, "redact") if settings.redact else None
    return ValueTexts(encode, redact, settings.value_length)


def read_rules(rules: str) -> list[CaptureRule]:
    """Rules from a file, or as they stand in the setting.

    Raises:
        SettingsError: they can't be read.
    """
    if not rules.strip():
        return []
    try:
        if rules.lstrip().startswith("["):
            tables = json.loads(rules)
        else:
            text = Path(rules).expanduser().read_text(encoding="utf-8")
            tables = json.loads(text) if rules.endswith(".json") else _tables(text)
        return TypeAdapter(list[CaptureRule]).validate_python(tables)
    except OSError as problem:
        raise SettingsError(f"rules {rules!r}: {problem.strerror or problem}") from problem
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"rules: {field}: {first['msg']}") from problem
    except ValueError as problem:
        raise SettingsError(f"rules {rules[:80]!r}: {problem}") from problem


def _tables(text: str) -> Any:
    tables = tomllib.loads(text)
    unknown = set(tables) - {"rule"}
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; give [[rule]] tables")
    return tables.get("rule", [])
