"""The names of a run in OpenLineage, and the URI of the producer."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from lineage_core.release import __version__

DEFAULT_NAMESPACE = "lineage-master"
DEFAULT_SCHEMAS = "urn:lineage-master:openlineage:1-0-0"
"""The specification requires URIs that identify producers and schemas, not addresses of pages: these identify
them wherever this program runs. An installation that serves the schema sets its address instead."""


def default_producer() -> str:
    """The URI of this producer, with its version."""
    return f"urn:lineage-master:producer:{__version__}"


@dataclass(frozen=True, slots=True)
class Naming:
    """How a run is named; what is empty is the default.

    ``link``: base URL to which an application's id is appended. ``producer``: URI of the producer.
    ``schemas``: URI below which schemas of our facets are named. ``lineage_facet``: whether its last event has
    the facet ``lineage``, which is experimental: the inputs of each output by themselves.
    """

    namespace: str = ""
    link: str = ""
    producer: str = ""
    schemas: str = ""
    lineage_facet: bool = False

    def link_to(self, app: str) -> str:
        """The URL of the page that shows the lineage of an application; empty: there is none."""
        return f"{self.link.rstrip('/')}/{quote(app, safe='')}" if self.link else ""

    def schema(self, facet: str) -> str:
        """The schema of a facet of ours."""
        return f"{(self.schemas or DEFAULT_SCHEMAS).rstrip('/')}/{facet}.json#/$defs/{facet}"
