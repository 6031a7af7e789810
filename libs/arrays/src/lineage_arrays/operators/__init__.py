"""Operators that say what their lineage is, workflows of them, and ways to keep it.

After SubZero: Wu, Madden, Stonebraker, "SubZero: A Fine-Grained Lineage System for Scientific Databases", ICDE 2013.
"""

from lineage_arrays.operators.encodings import Encoding, Orientation
from lineage_arrays.operators.graph import OperatorGraph, Step, Version
from lineage_arrays.operators.operator import Mode, Operator, Shapes
from lineage_arrays.operators.regions import Regions
from lineage_arrays.operators.strategies import Strategy

__all__ = [
    "Encoding",
    "Mode",
    "Operator",
    "OperatorGraph",
    "Orientation",
    "Regions",
    "Shapes",
    "Step",
    "Strategy",
    "Version",
]
