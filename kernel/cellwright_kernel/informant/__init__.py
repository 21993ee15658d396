"""Tells the outside of the browser's HTTPS, which the egress proxy does not open, and answers it from a record."""
