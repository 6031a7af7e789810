"""The graph store port and its adapters."""
