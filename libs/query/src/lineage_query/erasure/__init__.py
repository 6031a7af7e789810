"""Where rows of a source went: plans for their erasure, and answers to their subjects.

`finding` finds the rows in files, by conditions (`testing`); `reaching` traces them through all jobs and `kinds` tells rows that
carry them from values that others went into, too; `keeping` lists what lineage itself holds; `plan` is the result,
and `report` shows it. `steps` says what is to be done by it,
`applying` does it with a `journal`, `row_list` lists rows for who deletes them, `tables` deletes them from tables of Delta Lake, and `verifying` looks for what is left.
"""
