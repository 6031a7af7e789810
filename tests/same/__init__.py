"""The same program, plainly and captured: whatever a user can see must be the same.

``python -m tests.same`` runs programs twice, each time in a process of its own, and compares what they gave:

- ``methods``: a call of every public method of RDD, SparkContext, DataFrame and of its reader and writer, without
  and with each of its keywords (`calls`; `arguments` has a maker for each of them).
- ``doctests``: the examples in PySpark's documentation of RDD, SparkContext, DataFrame, its reader and writer,
  functions, catalog, windows, pandas functions, and of ``mllib`` and ``ml`` (`documented`).
- ``examples``: the batch programs that PySpark's package ships (`shipped`). Their resources (``people.json`` and such)
  are not in the package: they are written anew.

Compared are results, what is printed, files, errors (type and message), the types of what user functions are given,
how often these are called, and the names of Spark's jobs. Of the captured run the verdict must name nothing that did
not go wrong. A program that fails in both ways compares nothing: it counts as a difference, unless `known` says why
PySpark is to fail there.
"""
