"""The facet ``lineage`` of OpenLineage (LineageFacet 1-0-0), which is experimental: the inputs of each output by themselves.

Without it a backend takes each output of a run to be made of each input.
"""

from __future__ import annotations

from openlineage.client.facet_v2 import JobFacet

from lineage_openlineage.derivations import Derivations
from lineage_openlineage.errors import OpenLineageError
from lineage_openlineage.facts import RunFacts

CLIENT = "1.54"
"""The first version of the client that is known to have the facet."""


def lineage_facet(facts: RunFacts, derivations: Derivations, producer: str) -> JobFacet:
    """The facet of a run, on its job: an entry for each output that was made of inputs.

    Outputs without an entry are made of none, as the specification has it. All that an entry names is an input
    or output of the event.

    Raises:
        OpenLineageError: the client that is installed is older than the facet.
    """
    try:
        from openlineage.client.facet_v2 import lineage
    except ImportError:
        raise OpenLineageError(
            "the facet `lineage` needs a newer client of OpenLineage: install "
            f"'openlineage-python>={CLIENT}', or leave LINEAGE_OPENLINEAGE_LINEAGE_FACET out"
        ) from None
    inputs = {(dataset.namespace, dataset.name) for dataset in facts.inputs}
    entries: list[lineage.LineageEntry] = []
    for output in facts.outputs:
        names = derivations.get((output.namespace, output.name), ())
        sources: list[lineage.LineageInput] = [
            lineage.LineageDatasetInput(namespace=namespace, name=name, type="DATASET")
            for namespace, name in names
            if (namespace, name) in inputs
        ]
        if sources:
            entry = lineage.LineageDatasetEntry(
                namespace=output.namespace, name=output.name, type="DATASET", inputs=sources
            )
            entries.append(entry)
    return lineage.LineageJobFacet(entries=entries, producer=producer)
