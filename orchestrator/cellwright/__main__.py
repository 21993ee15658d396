"""`python -m cellwright` is the command line.

Flows in: arguments. Flows out: what `cellwright` prints. Decided here: nothing.
"""

from cellwright.cli.main import main

main()
