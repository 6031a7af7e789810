"""The data that the parts of the system exchange: blocks, messages, graphs, verdicts, and sets of positions."""
