"""Run events, in the model of the OpenLineage client."""

from __future__ import annotations

from datetime import datetime, timezone

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
    DatasetFacet,
    JobFacet,
    RunFacet,
    dataset_version_dataset,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
)

from lineage_openlineage.datasets import RunDataset
from lineage_openlineage.facts import RunFacts
from lineage_openlineage.lineage_facet import lineage_facet
from lineage_openlineage.naming import DEFAULT_NAMESPACE, Naming, default_producer

FACET = "lineageMaster_recordLineage"
"""Our run facet: our own prefix and a name, as the specification requires."""
SCHEMA = "LineageMasterRecordLineageRunFacet"
"""Its schema, which lies beside this module."""
REASONS_MAX = 20

_ENDS = {"ok": RunState.COMPLETE, "failed": RunState.FAIL, "abandoned": RunState.ABORT}


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
        return Naming().schema(SCHEMA)


def run_events(facts: RunFacts) -> list[RunEvent]:
    """START, and COMPLETE, FAIL or ABORT; of an application that still runs, START and RUNNING.

    The same facts give the same events, byte for byte.
    """
    state = _ENDS.get(facts.verdict.status, RunState.RUNNING)
    ended_at = facts.heard_at if facts.ended_at is None else facts.ended_at
    speaker = _Speaker(facts)
    return [
        speaker.event(RunState.START, facts.started_at, is_final=False),
        # The end time must not be before the start time, even where clocks differ.
        speaker.event(state, max(ended_at, facts.started_at), is_final=True),
    ]


class _Speaker:
    """Makes the events of one run. ``is_final``: with what is known at the end."""

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self._producer = facts.naming.producer or default_producer()

    def event(self, state: RunState, at: float, *, is_final: bool) -> RunEvent:
        facts = self._facts
        namespace = facts.naming.namespace or DEFAULT_NAMESPACE
        return RunEvent(
            eventTime=datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds"),
            eventType=state,
            producer=self._producer,
            run=Run(runId=facts.run_id, facets=self._run_facets(is_final=is_final)),
            job=Job(
                namespace=namespace, name=facts.name, facets=self._job_facets(is_final=is_final)
            ),
            inputs=[self._input(dataset, is_final=is_final) for dataset in facts.inputs],
            outputs=[self._output(dataset, is_final=is_final) for dataset in facts.outputs],
        )

    def _run_facets(self, *, is_final: bool) -> dict[str, RunFacet]:
        facets: dict[str, RunFacet] = {}
        if self._facts.spark_version:
            facets["processing_engine"] = processing_engine_run.ProcessingEngineRunFacet(
                version=self._facts.spark_version, name="spark", producer=self._producer
            )
        if is_final:
            facets[FACET] = self._record_lineage()
        return facets

    def _record_lineage(self) -> RecordLineageRunFacet:
        facts, verdict = self._facts, self._facts.verdict
        supersets = (
            f"node {node} is not exact: {reason}"
            for node, reasons in verdict.superset.items()
            for reason in reasons
        )
        facet = RecordLineageRunFacet(
            applicationId=facts.app,
            status=verdict.status,
            flows=verdict.flows,
            associations=facts.associations,
            blocks=facts.blocks,
            complete=verdict.complete,
            final=verdict.final,
            exact=facts.exact,
            reasons=[*verdict.reasons, *supersets][:REASONS_MAX],
            link=facts.naming.link_to(facts.app) or None,
            producer=self._producer,
        )
        # The model reads it from the class, not from the facet.
        facet._schemaURL = facts.naming.schema(SCHEMA)
        return facet

    def _job_facets(self, *, is_final: bool) -> dict[str, JobFacet]:
        facets: dict[str, JobFacet] = {
            "jobType": job_type_job.JobTypeJobFacet(
                processingType="BATCH",
                integration="LINEAGE_MASTER",
                jobType="APPLICATION",
                producer=self._producer,
            )
        }
        if is_final and self._facts.derivations is not None:
            facets["lineage"] = lineage_facet(self._facts, self._facts.derivations, self._producer)
        return facets

    def _input(self, dataset: RunDataset, *, is_final: bool) -> InputDataset:
        input_dataset = InputDataset(
            namespace=dataset.namespace,
            name=dataset.name,
            facets=self._dataset_facets(dataset, is_final=is_final),
        )
        if is_final:
            statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                rowCount=dataset.rows,
                size=dataset.size,
                fileCount=dataset.files,
                producer=self._producer,
            )
            input_dataset.inputFacets = {"inputStatistics": statistics}
        return input_dataset

    def _output(self, dataset: RunDataset, *, is_final: bool) -> OutputDataset:
        output_dataset = OutputDataset(
            namespace=dataset.namespace,
            name=dataset.name,
            facets=self._dataset_facets(dataset, is_final=is_final),
        )
        if is_final:
            statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=dataset.rows,
                size=dataset.size,
                fileCount=dataset.files,
                producer=self._producer,
            )
            output_dataset.outputFacets = {"outputStatistics": statistics}
        return output_dataset

    def _dataset_facets(self, dataset: RunDataset, *, is_final: bool) -> dict[str, DatasetFacet]:
        if not is_final or not dataset.version:
            return {}
        version = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=dataset.version, producer=self._producer
        )
        return {"version": version}
