"""How a cell asks a person.

Flows in: questions of cells. Flows out: people's answers, which come from outside.
"""
