"""HTTP API and web page over stored lineage."""
