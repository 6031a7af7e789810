"""Questions over stored lineage: one engine, whatever the store."""
