"""What the parts of the system tell each other: blocks, messages, graphs, verdicts, and the sets of positions they speak of."""
