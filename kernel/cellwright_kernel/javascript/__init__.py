"""The JavaScript kernel: Jupyter's side in Python, and behind it the Node that the playwright wheel brings along.

`__main__.py` starts it, `kernel.py` speaks Jupyter, `node.py` owns the process, `runner.cjs` is what Node runs.
"""
