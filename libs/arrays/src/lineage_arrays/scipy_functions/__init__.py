"""How the public functions of SciPy's ``ndimage``, ``signal`` and ``linalg`` relate the cells of their operands to those of their results."""
