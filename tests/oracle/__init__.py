"""What lineage must be, worked out without any of the code that captures it.

``model`` programs as data · ``functions`` what they call · ``layout`` where Spark puts rows ·
``brute`` the interpreter that carries every row's witnesses · ``spark`` the same program on Spark ·
``program`` Hypothesis strategies · ``reexecute`` a row made again from its witnesses alone.
"""
