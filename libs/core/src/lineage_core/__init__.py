"""The lineage contract, flow blocks, linking and tracing: pure, no I/O."""
