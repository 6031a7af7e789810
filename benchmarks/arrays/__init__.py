"""The benchmarks of SubZero (Wu, Madden, Stonebraker, ICDE 2013), generated, and what lineage of arrays costs in them."""
