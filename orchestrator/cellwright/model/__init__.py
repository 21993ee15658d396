"""Models: what the loop asks of one, a server of the Responses API, and a script in a model's place."""
