"""Where OpenLineage events are sent automatically: settings that capture and the writer share.

A mixin of fields, so that field ``x`` is ``LINEAGE_X`` everywhere. The key of a backend is none of
them: it is read from the environment alone (see :func:`lineage_openlineage.sending.read_endpoint`),
because the Spark configuration is visible to all users.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from lineage_openlineage.naming import DEFAULT_NAMESPACE, DEFAULT_SCHEMAS, Naming


class OpenLineageSettings(BaseModel):
    """Fields for a service's settings. Without a URL and a file nothing is published."""

    openlineage_url: str = Field(
        "",
        description="OpenLineage backend that receives the events of each run, http(s)://HOST[:PORT]; with a "
        "path it is the endpoint itself",
    )
    openlineage_file: str = Field("", description="file that events are added to, one a line")
    openlineage_namespace: str = Field(DEFAULT_NAMESPACE, description="namespace of jobs")
    openlineage_link: str = Field(
        "", description="URL of the page that shows lineage; the application's id is appended"
    )
    openlineage_producer: str = Field(
        "", description="URI of the producer; default: urn:lineage-master:producer:VERSION"
    )
    openlineage_schemas: str = Field(
        DEFAULT_SCHEMAS, description="URI below which the schema of our facet is named"
    )

    openlineage_lineage_facet: bool = Field(
        False,
        description="whether events have the experimental facet `lineage`: the inputs of each output by themselves",
    )

    @property
    def tells_openlineage(self) -> bool:
        """Whether events are published."""
        return bool(self.openlineage_url or self.openlineage_file)

    def naming(self) -> Naming:
        """How runs are named."""
        return Naming(
            self.openlineage_namespace,
            self.openlineage_link,
            self.openlineage_producer,
            self.openlineage_schemas,
            self.openlineage_lineage_facet,
        )
