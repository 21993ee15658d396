"""The Python kernel: what a cell of Python meets inside the sandbox.

Nothing is imported here: `python -m cellwright_kernel.python` is the way in, and what the model's own child processes
import from this package must cost nothing.
"""
