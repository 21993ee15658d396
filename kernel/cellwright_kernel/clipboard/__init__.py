"""The desktop's clipboard: who owns it, how it is read, and how kernels get at it.

`selections.py` speaks with the X server, `owner.py` offers that to the kernels on a socket, `clipboard.py` is what a
cell has.
"""
