"""Secrets as the inside has them: names, placeholders, and a value while it is being typed.

Flows in: wishes of cells, and the outside's answers. Flows out: key events; a field that no picture shows.
"""
