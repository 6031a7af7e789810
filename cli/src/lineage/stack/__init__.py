"""``lineage stack``: the pipeline's servers and services on one machine, without containers."""
