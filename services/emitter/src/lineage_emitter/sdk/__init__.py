"""The API by which any program or engine reports its lineage."""
