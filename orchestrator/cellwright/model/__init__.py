"""Models: what the loop asks of one, and a server of the Responses API."""
