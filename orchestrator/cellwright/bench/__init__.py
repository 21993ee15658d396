"""The figures that Cellwright promises, each beside a stock way in the same run.

Flows in: nothing. Flows out: `Figures` of cells, and rows of everything else. Decided here: nothing; a file for each part of
the table, beside it the two programs that are measured against (`stock.py`, `stock_desktop.py`).
"""
