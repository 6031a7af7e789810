"""How the public functions of NumPy relate the cells of their operands to those of their results."""
