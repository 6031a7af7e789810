"""Two verdicts on an application: whether its lineage is all there, and whether its outputs' rows can be traced by it.

Pure: computed from the messages of the driver and from what a store counted; the clock is passed
in. Lineage that is not known to be complete is not reported as complete. Which recipes allow traces is checked elsewhere
(`lineage_dataframes.trace.answerable`): records need none, they are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lineage_core.contract.limits import LIMITED_REASON
from lineage_core.contract.message import (
    Begin,
    Commit,
    DeadLetter,
    End,
    Heartbeat,
    Job,
    Message,
    Register,
    SetAside,
    Unknown,
)
from lineage_core.contract.reasons import listed_reasons
from lineage_core.contract.stream_progress import StreamProgress, StreamRuns

QUARANTINE = "quarantine"
"""The operator of the sink whose items are the records that were set aside, or repaired."""
REPAIRED = "repaired, "
"""How the text of such an item begins where another record was given in the place of the one that a function failed on."""
ARRAY = "array"
"""The operator of the nodes, of kind ``unknown``, that are recorded arrays."""
ABANDONED_AFTER_S = 60.0
"""Seconds without a message after which an application without an end counts as abandoned."""
REASONS_SHOWN = 5
"""Examples that one reason names; the rest is only counted."""
VERDICT_MESSAGE_TYPES = (
    "begin",
    "heartbeat",
    "end",
    "register",
    "job",
    "commit",
    "unknown",
    "dead_letter",
    "stream",
)
"""Types of the messages that a verdict uses: all others may be left out."""


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """What a store holds of an application.

    ``received``: blocks of visible tasks that arrived. ``unlinked``: of those, blocks with input
    positions that no block put out; ``unmatched`` counts the positions. ``claimed``: tasks (node,
    partition) that are visible without a commit because their records were read, and ``claimed_
    blocks`` their blocks. ``inexact``: reasons by node, from stored blocks. ``problems``: reasons
    by place (a file, a line of the spool). ``written``: blocks that arrived, also of tasks that are
    not visible (yet); None: only visible ones are stored. ``stubs``: blocks that edges or their task's
    commit name and that did not arrive. ``recipes``: nodes whose recipe arrived. ``unsealed``: key
    spaces of which some edges were not made, because the linker lost its state in between.
    ``silent_s``: seconds since the store received the last message of the application, both times by
    the store's clock; None: unknown. ``deleting``: the deletion of the application has begun.
    """

    received: int
    unlinked: int
    unmatched: int
    flows: int
    claimed: frozenset[tuple[str, int]] = frozenset()
    claimed_blocks: int = 0
    inexact: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    written: int | None = None
    stubs: int = 0
    recipes: frozenset[str] = frozenset()
    unsealed: int = 0
    silent_s: float | None = None
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why rows of an output can't be traced back, though all of its lineage was received.

    ``node``: the output in the graph, and ``what`` the program called. ``operator``: of its plan, as recipes
    name it (``aggregate``); empty where it is none of these.
    """

    node: str
    what: str
    operator: str
    reason: str

    @property
    def text(self) -> str:
        """For people."""
        by = f"{self.operator}: " if self.operator else ""
        return f"node {self.node} ({self.what}): {by}{self.reason}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Complete or not, and why not.

    ``complete``: all was received. ``answerable``: rows of all captured outputs can be traced (a superset is an answer, too);
    None: not known, as some outputs, ``unchecked`` of them, were not checked. ``refusals``: the reasons.

    ``limited``: by node where rules of the user limit capture, how many records it saw and how many
    of them have lineage. ``set_aside``: by node, on how many records its function failed, which the job went on without:
    they have lineage, and its outputs lack what they would have given. ``repaired``: likewise, where a function of the user gave others in their place. ``status``: running, ok, failed, abandoned or damaged.
    ``superset``: reasons by node; an inexact node does not make the lineage incomplete: it names more than what was used, never less. ``final``: no
    more is on its way: the application ended and all that it sent is stored, or it was abandoned.
    Late deliveries and replayed dead letters may still change it. ``earlier``: applications that the same run of
    the program captured before; the verdict is not on them. ``streams``: how far its streaming queries are complete, while they run, too.
    """

    complete: bool
    status: str
    tasks_expected: int
    tasks_committed: int
    blocks_expected: int
    blocks_received: int
    blocks_linked: int
    flows: int
    unmatched: int
    collisions: int
    dead_letters: int
    unknown: tuple[str, ...]
    superset: Mapping[str, tuple[str, ...]]
    limited: Mapping[str, tuple[int, int]]
    reasons: tuple[str, ...]
    final: bool
    blocks_written: int
    stubs: int
    recipes_expected: int = 0
    recipes_received: int = 0
    answerable: bool | None = None
    refusals: tuple[Refusal, ...] = ()
    unchecked: int = 0
    earlier: tuple[str, ...] = ()
    set_aside: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    streams: tuple[StreamProgress, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether no node names more inputs than it used, according to blocks; traces by recipes report it themselves."""
        return not self.superset and not self.collisions

    @property
    def reason_chars(self) -> int:
        """Number of characters of its reasons, and of the nodes that they are of."""
        texts = (*self.reasons, *self.unknown, *self.superset)
        of_nodes = (reason for reasons in self.superset.values() for reason in reasons)
        return sum(map(len, (*texts, *of_nodes)))

    def answered(self, refusals: Iterable[Refusal], unchecked: int = 0) -> Verdict:
        """The verdict with what was found out about the outputs."""
        all_refusals = tuple(refusals)
        answerable = False if all_refusals else None if unchecked else True
        return replace(self, answerable=answerable, refusals=all_refusals, unchecked=unchecked)

    def to_json(self) -> dict[str, Any]:
        """As ``lineage verify --json`` prints it."""
        return {
            "complete": self.complete,
            "received": self.complete,
            "answerable": self.answerable,
            "refusals": [asdict(refusal) for refusal in self.refusals],
            "unchecked": self.unchecked,
            "status": self.status,
            "final": self.final,
            "tasks": {"expected": self.tasks_expected, "committed": self.tasks_committed},
            "blocks": {
                "expected": self.blocks_expected,
                "written": self.blocks_written,
                "received": self.blocks_received,
                "linked": self.blocks_linked,
                "stubs": self.stubs,
            },
            "recipes": {"expected": self.recipes_expected, "received": self.recipes_received},
            "flows": self.flows,
            "unmatched": self.unmatched,
            "collisions": self.collisions,
            "dead_letters": self.dead_letters,
            "unknown": list(self.unknown),
            "superset": {node: list(reasons) for node, reasons in self.superset.items()},
            "limited": {
                node: {"seen": seen, "captured": captured, "share": captured / max(seen, 1)}
                for node, (seen, captured) in self.limited.items()
            },
            "set_aside": dict(self.set_aside),
            "repaired": dict(self.repaired),
            "reasons": list(self.reasons),
            "earlier": list(self.earlier),
            "streams": [asdict(stream) for stream in self.streams],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Verdict:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        tasks, blocks = fields["tasks"], fields["blocks"]
        # A service of the previous version sends nothing about recipes: it stores none.
        recipes = fields.get("recipes", {"expected": 0, "received": 0})
        return cls(
            complete=fields["complete"],
            status=fields["status"],
            tasks_expected=tasks["expected"],
            tasks_committed=tasks["committed"],
            blocks_expected=blocks["expected"],
            blocks_received=blocks["received"],
            blocks_linked=blocks["linked"],
            flows=fields["flows"],
            unmatched=fields["unmatched"],
            collisions=fields["collisions"],
            dead_letters=fields["dead_letters"],
            unknown=tuple(fields["unknown"]),
            superset={node: tuple(reasons) for node, reasons in fields["superset"].items()},
            limited={
                node: (counts["seen"], counts["captured"])
                for node, counts in fields["limited"].items()
            },
            reasons=tuple(fields["reasons"]),
            final=fields["final"],
            blocks_written=blocks["written"],
            stubs=blocks["stubs"],
            recipes_expected=recipes["expected"],
            recipes_received=recipes["received"],
            # Nor whether rows can be traced.
            answerable=fields.get("answerable"),
            refusals=tuple(Refusal(**refusal) for refusal in fields.get("refusals", ())),
            unchecked=fields.get("unchecked", 0),
            earlier=tuple(fields.get("earlier", ())),
            set_aside=dict(fields.get("set_aside", {})),
            repaired=dict(fields.get("repaired", {})),
            streams=tuple(StreamProgress(**stream) for stream in fields.get("streams", ())),
        )


def judge(messages: Iterable[Message], counts: StoreCounts, *, now: float) -> Verdict:
    """The verdict over all messages of one application.

    ``now``: unix seconds; used only where the store has no time since the last message.
    Times in messages are of the driver's clock, which may be any time off.
    """
    facts = _Facts(messages)
    silent_s = now - facts.seen_at if counts.silent_s is None else counts.silent_s
    promised = facts.blocks_promised + counts.claimed_blocks
    reasons = [
        *facts.end_problems(silent_s),
        *facts.capture_problems(counts),
        *facts.action_problems(),
        *facts.task_problems(counts),
        *facts.commit_problems(),
        *_store_problems(counts, promised),
        *facts.spool_problems(promised - counts.received),
        *facts.dead_letter_problems(),
        *facts.total_problems(),
        *facts.recipe_problems(counts),
    ]
    unknown = listed_reasons(map(_unknown_text, facts.unknown))
    reasons += [f"unknown part: {text}" for text in unknown]
    return Verdict(
        complete=not reasons,
        status=facts.status(silent_s),
        tasks_expected=len(facts.expected),
        tasks_committed=len(facts.expected & (facts.committed_partitions | counts.claimed)),
        blocks_expected=promised,
        blocks_received=counts.received,
        blocks_linked=counts.received - counts.unlinked,
        flows=counts.flows,
        unmatched=counts.unmatched,
        collisions=sum(commit.collisions for commit in facts.commits.values()),
        dead_letters=len(facts.dead_letters),
        unknown=unknown,
        superset=facts.superset(counts),
        limited=facts.limited(),
        reasons=listed_reasons(reasons),
        final=facts.is_final(silent_s, counts, promised),
        blocks_written=counts.received if counts.written is None else counts.written,
        stubs=counts.stubs,
        recipes_expected=facts.recipes_promised,
        recipes_received=len(counts.recipes),
        # Records are looked up; whether DataFrames' outputs can be traced depends on their recipes.
        answerable=None if facts.recipes_promised or counts.recipes else True,
        unchecked=len(counts.recipes),
        earlier=() if facts.begin is None else facts.begin.earlier,
        set_aside=facts.largest_counts(lambda commit: commit.set_aside),
        repaired=facts.largest_counts(lambda commit: commit.repaired),
        streams=facts.streams.progress(
            counts.recipes,
            # What was lost on the way may have been of a batch.
            is_whole=not (facts.dead_letters or counts.problems or any(facts.total_problems())),
        ),
    )


def damaged_verdict(damage: str) -> Verdict:
    """The verdict on an application of which the store lost something. ``damage``: what; nothing is counted of the rest."""
    return Verdict(
        complete=False,
        status="damaged",
        tasks_expected=0,
        tasks_committed=0,
        blocks_expected=0,
        blocks_received=0,
        blocks_linked=0,
        flows=0,
        unmatched=0,
        collisions=0,
        dead_letters=0,
        unknown=(),
        superset={},
        limited={},
        reasons=(f"damaged: {damage}",),
        # What is missing may be put back.
        final=False,
        blocks_written=0,
        stubs=0,
        answerable=False,
    )


class _Facts:
    """The messages of an application, by what they are about."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.begin: Begin | None = None
        self.starts = set[float]()
        self.end: End | None = None
        self.seen_at = 0.0
        self.nodes: dict[str, Register] = {}
        self.jobs: list[Job] = []
        self.commits: dict[tuple[str, int, int], Commit] = {}
        self.unknown: list[Unknown] = []
        self.streams = StreamRuns()
        self.dead_letters: dict[str, str] = {}
        resolved: set[str] = set()
        for message in messages:
            self._add(message)
            self.streams.add(message)
            if isinstance(message, DeadLetter):
                self.dead_letters[message.place] = message.reason
                resolved.update([message.place] if message.resolved else [])
        for place in resolved:
            del self.dead_letters[place]
        self.expected = {
            (part.node, partition)
            for job in self.jobs
            for part in job.expected
            for partition in part.partitions
        }
        self.committed_partitions = {(node, partition) for node, partition, _ in self.commits}
        self.blocks_promised = sum(commit.blocks for commit in self.commits.values())
        self.frames = {name: node for name, node in self.nodes.items() if node.kind == "frame"}
        announced_recipes = 0 if self.end is None else self.end.totals.recipes
        self.recipes_promised = max(len(self.frames), announced_recipes)

    def _add(self, message: Message) -> None:
        match message:
            case Begin():
                self.begin = message
                self.starts.add(message.started_at)
                self.seen_at = max(self.seen_at, message.started_at)
            case Heartbeat():
                self.seen_at = max(self.seen_at, message.at)
            case End():
                self.end = message
            case Register():
                self.nodes[message.node] = message
            case Job():
                self.jobs.append(message)
            case Commit():
                self.commits[message.node, message.partition, message.attempt] = message
            case Unknown():
                self.unknown.append(message)
            case _:
                pass

    def status(self, silent_s: float) -> str:
        if self.end is not None:
            return self.end.status
        return "abandoned" if silent_s > ABANDONED_AFTER_S else "running"

    def is_final(self, silent_s: float, counts: StoreCounts, promised: int) -> bool:
        """Whether no message or block is still expected. ``promised``: blocks."""
        if self.end is None:
            return self.status(silent_s) == "abandoned"
        all_arrived = len(self.commits) >= self.end.totals.tasks
        # What waits in a spool waits for a person.
        spooled = sum(commit.spooled for commit in self.commits.values())
        all_arrived = all_arrived and len(counts.recipes) >= self.end.totals.recipes
        all_arrived = all_arrived and len(self.nodes) >= self.end.totals.nodes
        return all_arrived and counts.received + spooled >= promised and counts.stubs <= spooled

    def spool_problems(self, missing: int) -> Iterable[str]:
        """Where missing blocks wait. Reported while any are missing: which ones have arrived is unknown."""
        places: dict[str, int] = {}
        reasons: dict[str, str] = {}
        for commit in self.commits.values():
            if commit.spooled and missing > 0:
                folder = commit.file.rpartition("/blocks/")[0].rpartition("/")[0] or commit.file
                places[folder] = places.get(folder, 0) + commit.spooled
                reasons.setdefault(folder, commit.spooled_reason)
        for folder, blocks in places.items():
            why = f" ({reasons[folder]})" if reasons[folder] else ""
            yield f"{min(blocks, missing)} blocks wait in the spool at {folder}{why}: lineage send"

    def end_problems(self, silent_s: float) -> Iterable[str]:
        if self.begin is None:
            yield "the beginning of the application was never received"
        if len(self.starts) > 1:
            # Flows of one are taken for those of another: of the same task, the first that came count.
            yield (
                f"{len(self.starts):,} runs have this id, and their lineage is mixed: delete the application, and give each run an id of its own"
            )
        match self.status(silent_s):
            case "running":
                yield "the application is still running: the verdict is final when it ends"
            case "abandoned":
                yield (
                    f"the application never ended: no message was received for {int(silent_s)} s"
                )

    def capture_problems(self, counts: StoreCounts) -> Iterable[str]:
        if self.recipes_promised or counts.recipes:
            return
        sinks = {
            node.node
            for node in self.nodes.values()
            if node.kind == "sink" and node.op != QUARANTINE
        }
        sinks |= {job.sink for job in self.jobs if job.sink is not None}
        # An action over no partition has no task, and all of its lineage.
        over_nothing = self.jobs and not self.expected
        if not sinks and any(node.op == ARRAY for node in self.nodes.values()):
            yield "no rows were captured: cells of its arrays are traced by `lineage arrays`, whose answers say how complete they are"
        elif not sinks or not (self.commits or over_nothing):
            yield "nothing was captured"

    def action_problems(self) -> Iterable[str]:
        """Sinks whose action never returned: it is unknown whether all their partitions are there."""
        returned = {job.sink for job in self.jobs}
        # A failed action has its own report, with the reason.
        failed = {(unknown.what, unknown.call_site) for unknown in self.unknown}
        for node in self.nodes.values():
            is_reported = (node.op, node.call_site) in failed
            # What is set aside is put out by whatever task comes to it.
            is_awaited = node.kind == "sink" and node.op != QUARANTINE
            if is_awaited and node.node not in returned and not is_reported:
                place = f" at {node.call_site}" if node.call_site else ""
                yield f"{node.op}{place} did not finish: its lineage may be partial"

    def task_problems(self, counts: StoreCounts) -> Iterable[str]:
        missing = sorted(self.expected - self.committed_partitions - counts.claimed)
        if missing:
            examples = _examples(f"{node}#{partition}" for node, partition in missing)
            yield f"{len(missing)} of {len(self.expected)} tasks sent no lineage: {examples}"

    def commit_problems(self) -> Iterable[str]:
        for commit in self.commits.values():
            task = f"task {commit.node}#{commit.partition}.{commit.attempt}"
            if commit.failed:
                yield f"{task}: capture failed: {commit.failed}"
            if commit.undelivered:
                yield f"{task}: {commit.undelivered} blocks could not be delivered"

    def total_problems(self) -> Iterable[str]:
        if self.end is None:
            return
        totals, tasks = self.end.totals, len(self.commits)
        if totals.tasks > tasks:
            yield f"{totals.tasks - tasks} of {totals.tasks} commits never arrived"
        if totals.nodes > len(self.nodes):
            lost = totals.nodes - len(self.nodes)
            yield f"{lost} of {totals.nodes} registrations of nodes never arrived"
        if totals.unknown > len(set(self.unknown)):
            lost = totals.unknown - len(set(self.unknown))
            yield f"{lost} of {totals.unknown} notes of unknown parts never arrived"
        if totals.tasks == tasks and totals.blocks > self.blocks_promised:
            yield f"{totals.blocks} blocks were sent, {self.blocks_promised} are accounted for"

    def recipe_problems(self, counts: StoreCounts) -> Iterable[str]:
        missing = self.recipes_promised - len(counts.recipes)
        if missing > 0:
            # Of those whose registration got lost, too, no name is known.
            missing_nodes = [
                node for name, node in self.frames.items() if name not in counts.recipes
            ]
            examples = _examples(
                f"{node.op} at {node.call_site or node.node}" for node in missing_nodes
            )
            detail = f": {examples}" if examples else ""
            yield f"{missing} of {self.recipes_promised} recipes are missing{detail}"

    def dead_letter_problems(self) -> Iterable[str]:
        if self.dead_letters:
            count = len(self.dead_letters)
            examples = _examples(
                f"{place}: {reason}" for place, reason in self.dead_letters.items()
            )
            yield f"{count} dead letters (`lineage dlq list`): {examples}"

    def superset(self, counts: StoreCounts) -> dict[str, tuple[str, ...]]:
        reasons_by_node: dict[str, dict[str, None]] = {}
        for node in self.nodes.values():
            if not node.exact:
                reasons_by_node.setdefault(node.node, {})[node.reason] = None
        for commit in self.commits.values():
            for reason in commit.superset_reasons:
                reasons_by_node.setdefault(commit.node, {})[reason] = None
        for name, reasons in counts.inexact.items():
            for reason in reasons:
                if reason == LIMITED_REASON:
                    continue
                reasons_by_node.setdefault(name, {})[reason] = None
        # What an unknown node does may be more or less: that is no superset, see ``unknown``.
        unknown = {node.node for node in self.nodes.values() if node.kind == "unknown"}
        return {
            node: listed_reasons(reasons_by_node[node])
            for node in reasons_by_node
            if node not in unknown
        }

    def limited(self) -> dict[str, tuple[int, int]]:
        counts_by_node: dict[str, tuple[int, int]] = {}
        for commit in self.commits.values():
            for part in commit.limited:
                seen, captured = counts_by_node.get(part.node, (0, 0))
                counts_by_node[part.node] = (seen + part.seen, captured + part.captured)
        return counts_by_node

    def largest_counts(self, parts_of: Callable[[Commit], Iterable[SetAside]]) -> dict[str, int]:
        """Records by node. A partition that was computed several times counts once, by its largest number."""
        largest: dict[tuple[str, int], int] = {}
        for commit in self.commits.values():
            for part in parts_of(commit):
                place = (part.node, commit.partition)
                largest[place] = max(part.records, largest.get(place, 0))
        counts_by_node: dict[str, int] = {}
        for (node, _), records in largest.items():
            counts_by_node[node] = counts_by_node.get(node, 0) + records
        return counts_by_node


def _store_problems(counts: StoreCounts, expected: int) -> Iterable[str]:
    if counts.received < expected:
        yield f"{expected - counts.received} of {expected} blocks are missing"
    if counts.unlinked:
        yield (
            f"{counts.unlinked} blocks are not fully linked: "
            f"{counts.unmatched} input positions that no block puts out"
        )
    if counts.stubs:
        yield f"{counts.stubs} blocks are linked to and did not arrive"
    if counts.unsealed:
        yield (
            f"{counts.unsealed} key spaces are linked in part: the linker lost its state and links "
            "again what Kafka keeps (runbook: state-lost)"
        )
    if counts.deleting:
        yield "it is being deleted, or that was interrupted: some of it may be gone (`lineage rm` deletes the rest)"
    for place, reason in counts.problems.items():
        yield f"{place}: {reason}"


def _unknown_text(unknown: Unknown) -> str:
    place = f" at {unknown.call_site}" if unknown.call_site else ""
    return f"{unknown.what}{place}" + (f": {unknown.reason}" if unknown.reason else "")


def _examples(names: Iterable[str]) -> str:
    all_names = list(names)
    more = len(all_names) - REASONS_SHOWN
    return ", ".join(all_names[:REASONS_SHOWN]) + (f" and {more} more" if more > 0 else "")
