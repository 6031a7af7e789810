"""docs/benchmarks.md and its pictures, from the lines that benchmarks printed.

The text is page.md; no figure is typed in by hand, but those there that are older than the lines.
"""
