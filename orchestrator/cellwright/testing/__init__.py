"""For tests, ours and other people's: doubles, and conformance suites for sandbox backends and execution services."""
