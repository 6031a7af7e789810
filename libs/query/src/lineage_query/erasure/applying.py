"""Carries a plan out over what lineage itself keeps: step by step, journaled, and continued after an interruption."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_core.contract.message import Erased, Message, Recipe
from lineage_core.contract.region import Region
from lineage_core.recipe.document import ERASED as ERASED_RECIPE
from lineage_query.erasure.erased_texts import ItemsOfTexts
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.journal import Journal, Step
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.plan import Plan, digest_of
from lineage_query.erasure.row_list import rows_of
from lineage_query.erasure.steps import ErasureError, steps_of
from lineage_query.erasure.topics import delete_records
from lineage_store.errors import StoreError
from lineage_store.materialised import delete_application
from lineage_store.port import ErasableStore, GraphStore, ViewingStore
from lineage_store.url import open_embedded

PLAN_BYTES_MAX = 1 << 30
NAMED_MAX = 20
"""Differences between plans that an error names."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done. ``already``: nothing, as it was all done before. ``restarted``: when it was taken up again. ``steps``: with their results."""

    digest: str
    journal: Path
    already: bool
    restarted: tuple[str, ...]
    steps: tuple[tuple[Step, Mapping[str, Any]], ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "plan": self.digest,
            "journal": str(self.journal),
            "already": self.already,
            "restarted": list(self.restarted),
            "steps": [
                {key: step[key] for key in step if key != "spaces"} | {"result": dict(result)}
                for step, result in self.steps
            ],
        }


def read_plan(path: Path, digest: str = "") -> dict[str, Any]:
    """Read a plan that was written as JSON.

    Args:
        path: the file.
        digest: of the plan that was approved; empty: that of the file.

    Raises:
        ErasureError: it is no plan to erase, or not the one of that digest.
        OSError: it can't be read.
    """
    if path.stat().st_size > PLAN_BYTES_MAX:
        raise ErasureError(f"{path} has more than {PLAN_BYTES_MAX >> 20} MiB")
    try:
        document = json.loads(path.read_bytes())
        own = digest_of(document)
        purpose, named = document["purpose"], document["digest"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ErasureError(
            f"{path} is no plan (lineage erase --plan -o FILE): {error!r:.200}"
        ) from error
    if purpose != "erase":
        raise ErasureError(f"{path} is no plan to erase, but of an access request")
    if own != named:
        raise ErasureError(f"{path} was changed: its digest is {own}, and it says {named!r:.100}")
    if digest and digest != own:
        raise ErasureError(f"{path} is the plan {own}, and not {digest!r:.100}")
    result: dict[str, Any] = document
    return result


def differences(approved: Mapping[str, Any], plan: Plan) -> list[str]:
    """What a plan has that the approved one has not, and the other way round."""
    now = plan.to_json()
    texts = [
        f"{name}: {approved[name]!r:.200} is {now[name]!r:.200} now"
        for name in ("version", "source", "condition", "exact", "complete")
        if approved[name] != now[name]
    ]
    for name in ("subject", "rows", "gaps"):
        before, after = ({_shown(entry): entry for entry in of[name]} for of in (approved, now))
        texts += [f"{name}: {key} is no more" for key in before if key not in after]
        texts += [f"{name}: {key} is new" for key in after if key not in before]
        texts += [
            f"{name}: {key} is {', '.join(f'{part} {entry[part]!r:.60}' for part in _changed(entry, after[key]))} no more"
            for key, entry in before.items()
            if key in after and isinstance(entry, dict) and _changed(entry, after[key])
        ]
    more = len(texts) - NAMED_MAX
    return [*texts[:NAMED_MAX], *([f"and {more:,} more"] if more > 0 else [])]


def _shown(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    return str(entry.get("place") or f"{entry['app']} {entry['node']} {entry.get('reason', '')}")


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key in before if key != "text" and before[key] != after.get(key)]


def apply_plan(
    approved: Mapping[str, Any],
    query: SubjectQuery,
    make: Callable[[], Plan],
    store: ErasableStore,
    place: StorePlace,
) -> Applied:
    """Erase what lineage itself keeps of a subject.

    May be called again after an interruption at any point, and does nothing once all is done.

    Args:
        approved: the plan, as JSON.
        query: by which it was made.
        make: makes the plan as it is now.
        store: has the lineage.
        place: of the store.

    Raises:
        ErasureError: the plan is another one now, or an application on the way still runs.
        JournalError: another process carries it out.
        LineageError: as `make_plan`.
    """
    digest = approved["digest"]
    with Journal(place.journals, digest) as journal:
        again = _not_done(journal, store)
        if journal.is_ended and not again:
            return _applied(journal, already=True)
        if journal.steps is not None:
            journal.restart(again)
        else:
            plan = make()
            if plan.digest != digest:
                raise ErasureError(
                    f"the plan is another one now ({plan.digest}); make it again and look at it: "
                    + "; ".join(differences(approved, plan))
                )
            journal.begin(steps_of(plan, query, store, place), query.subjects.keys, query.form)
        for number, step in enumerate(journal.steps or ()):
            if number not in journal.results:
                journal.done(number, _perform(step, digest, store, place))
        journal.end()
        return _applied(journal, already=False)


def _applied(journal: Journal, *, already: bool) -> Applied:
    steps = tuple((step, journal.results[at]) for at, step in enumerate(journal.steps or ()))
    return Applied(journal.digest, journal.path, already, tuple(journal.restarted), steps)


def _not_done(journal: Journal, store: GraphStore) -> Collection[int]:
    """Steps that the journal has as done, and a store has not: it is an older copy of the one in which they were, or another one."""
    ids = set(store.application_ids())
    apps = {
        step["app"]
        for number, step in enumerate(journal.steps or ())
        if number in journal.results and step["kind"] == "store" and step["app"] in ids
    }
    missing = {
        app
        for app in apps
        if not any(
            isinstance(message, Erased) and message.plan == journal.digest
            for message in store.messages(app, "erased")
        )
    }
    # What else is done once more finds nothing to do.
    return list(journal.results) if missing else ()


def items_of(step: Step) -> ItemsOfTexts:
    """Whose texts a step erases."""
    spaces = {space: Region.from_text(text) for space, text in step["spaces"].items()}
    return ItemsOfTexts(step["whole"], spaces)


def _perform(step: Step, digest: str, store: ErasableStore, place: StorePlace) -> Mapping[str, Any]:
    match step["kind"]:
        case "store":
            return _erase_in_store(step, digest, store)
        case "kept rows":
            return {"files": sum(_remove_file(path) for path in step["files"])}
        case "spool" | "caches":
            was_there = os.path.isdir(step["folder"])
            if was_there:
                shutil.rmtree(step["folder"])
            return {"folders": int(was_there)}
        case "views" if isinstance(store, ViewingStore):
            return {"flows": store.remove_view(step["app"])}
        case "topics" if place.topics is not None:
            with place.topics() as topics:
                return delete_records(topics, step["apps"])
        case "topics":
            raise ErasureError(
                "records in Kafka are to be deleted: LINEAGE_KAFKA names the servers"
            )
        case "staging":
            return {"applications": _remove_staged(place.staging, step["app"])}
        case kind:
            raise ErasureError(f"{kind!r:.80} is no step that this program knows")


def _erase_in_store(step: Step, digest: str, store: ErasableStore) -> Mapping[str, Any]:
    app = step["app"]
    if app not in store.application_ids():
        # Somebody deleted it meanwhile.
        return {"blocks": 0, "recipes": 0}
    messages: list[Message] = [
        Recipe(app=app, node=node, recipe=ERASED_RECIPE) for node in step["recipes"]
    ]
    blocks = store.erase(app, items_of(step).rewrite, [*messages, Erased(app=app, plan=digest)])
    return {"blocks": blocks, "recipes": len(messages)}


def _remove_file(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _remove_staged(url: str, app: str) -> int:
    try:
        store = open_embedded(url)
    except StoreError:
        return 0
    with store:
        return len(delete_application(store, app)) if app in store.application_ids() else 0


def applied_lines(
    applied: Applied, approved: Mapping[str, Any], row_list: Path | None
) -> Iterator[str]:
    """What was done, as lines for people."""
    if applied.already:
        yield f"nothing to do: the plan was carried out before ({applied.journal})"
    for step, result in () if applied.already else applied.steps:
        of = f" of {step['app']}" if "app" in step else ""
        all_texts = " (all its texts)" if step.get("whole") else ""
        counts = ", ".join(
            f"{count:,} {what}" for what, count in result.items() if isinstance(count, int)
        )
        yield f"{step['kind']}{of}{all_texts}: {counts}"
    rows = sum(1 for _ in rows_of(approved))
    where = "--list FILE writes which" if row_list is None else f"listed in {row_list}"
    yield f"{rows:,} rows of outputs are yours to delete: {where}"
    yield ""
    yield "What this did not remove"
    for _, result in applied.steps:
        yield from (f"  {place}" for place in result.get("left", ()))
    yield from (f"  {line}" for line in approved["not_removed"])
    yield ""
    if applied.restarted:
        yield f"taken up again {len(applied.restarted):,} times, at {', '.join(applied.restarted[-NAMED_MAX:])}"
    yield f"journal {applied.journal}"
