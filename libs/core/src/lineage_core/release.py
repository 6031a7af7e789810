"""The version of the whole distribution."""

__version__ = "0.1.0"
