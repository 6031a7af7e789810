"""The API by which any program or engine tells its lineage."""
