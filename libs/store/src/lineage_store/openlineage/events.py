"""Run events, in the model of the OpenLineage client."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version

import attr
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
)

from lineage_store.openlineage.datasets import Dataset
from lineage_store.openlineage.facts import RunFacts

FACET = "lineageMaster_recordLineage"
"""Our run facet: a prefix of our own and a name, as the specification asks."""
SPECIFICATION = "https://lineage-master.example/spec/facets/1-0-0"
"""Where schemas of our facets are named; the schema itself lies beside this module."""
REASONS_MAX = 20

_ENDS = {"ok": RunState.COMPLETE, "failed": RunState.FAIL, "abandoned": RunState.ABORT}


def producer() -> str:
    """Who says all this."""
    return f"https://lineage-master.example/producer/{version('lineage-store')}"


@attr.define
class RecordLineageRunFacet(RunFacet):
    """How much record-level lineage there is of a run, and how good it is."""

    applicationId: str = attr.field()
    status: str = attr.field()
    flows: int = attr.field()
    associations: int = attr.field()
    blocks: int = attr.field()
    complete: bool = attr.field()
    final: bool = attr.field()
    exact: bool = attr.field()
    reasons: list[str] = attr.field(factory=list)
    link: str | None = attr.field(default=None)

    @staticmethod
    def _get_schema() -> str:
        name = "LineageMasterRecordLineageRunFacet"
        return f"{SPECIFICATION}/{name}.json#/$defs/{name}"


def run_events(facts: RunFacts) -> list[RunEvent]:
    """START, and COMPLETE, FAIL or ABORT; of an application that still runs, START and RUNNING.

    The same facts give the same events, byte for byte.
    """
    status = facts.verdict.status
    state = _ENDS.get(status, RunState.RUNNING)
    ended_at = facts.heard_at if facts.ended_at is None else facts.ended_at
    return [
        _event(facts, RunState.START, facts.started_at, told=False),
        # What ends never ends before it began, whatever the clocks say.
        _event(facts, state, max(ended_at, facts.started_at), told=True),
    ]


def _event(facts: RunFacts, state: RunState, at: float, *, told: bool) -> RunEvent:
    """``told``: with what is known at the end."""
    return RunEvent(
        eventTime=datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
        eventType=state,
        producer=producer(),
        run=Run(runId=facts.run_id, facets=_run_facets(facts, told=told)),
        job=Job(namespace=facts.namespace, name=facts.name, facets=_job_facets()),
        inputs=[_input(one, told=told) for one in facts.inputs],
        outputs=[_output(one, told=told) for one in facts.outputs],
    )


def _run_facets(facts: RunFacts, *, told: bool) -> dict[str, RunFacet]:
    facets: dict[str, RunFacet] = {}
    if facts.spark_version:
        facets["processing_engine"] = processing_engine_run.ProcessingEngineRunFacet(
            version=facts.spark_version, name="spark", producer=producer()
        )
    if told:
        facets[FACET] = _record_lineage(facts)
    return facets


def _record_lineage(facts: RunFacts) -> RecordLineageRunFacet:
    verdict = facts.verdict
    supersets = (
        f"node {node} is not exact: {reason}"
        for node, reasons in verdict.superset.items()
        for reason in reasons
    )
    return RecordLineageRunFacet(
        applicationId=facts.app,
        status=verdict.status,
        flows=verdict.flows,
        associations=facts.associations,
        blocks=facts.blocks,
        complete=verdict.complete,
        final=verdict.final,
        exact=facts.exact,
        reasons=[*verdict.reasons, *supersets][:REASONS_MAX],
        link=facts.link or None,
        producer=producer(),
    )


def _job_facets() -> dict[str, JobFacet]:
    return {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="BATCH",
            integration="LINEAGE_MASTER",
            jobType="APPLICATION",
            producer=producer(),
        )
    }


def _input(one: Dataset, *, told: bool) -> InputDataset:
    found = InputDataset(namespace=one.namespace, name=one.name)
    if told:
        found.inputFacets = {
            "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                rowCount=one.rows, size=one.size, fileCount=one.files, producer=producer()
            )
        }
    return found


def _output(one: Dataset, *, told: bool) -> OutputDataset:
    found = OutputDataset(namespace=one.namespace, name=one.name)
    if told:
        found.outputFacets = {
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=one.rows, size=one.size, fileCount=one.files, producer=producer()
            )
        }
    return found
