"""The inside: what runs in the sandbox, beside the model's code. It never imports `cellwright`.

PYTEST_DONT_REWRITE: as `cellwright`, with which it is installed.
"""
