"""What can be proved of a user's functions from their code, before they run.

``source`` finds the syntax tree that a code object was compiled from, ``names`` what a name outside of
a function stands for, ``values`` classifies values and lists calls that keep nothing, ``purity`` checks
statements and expressions, ``one_record`` proves that a function over a partition makes each output
from the record that it read last.

All of it is conservative: what is not known to be harmless is refused, with the line and the reason.
"""
