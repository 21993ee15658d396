"""The outside: keys, rules and the record. The public names are listed here and nowhere else."""

__version__ = "0.1.0"
