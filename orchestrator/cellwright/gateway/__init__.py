"""The HTTP face of the orchestrator: the guide endpoint, and sessions under `/v1`."""
