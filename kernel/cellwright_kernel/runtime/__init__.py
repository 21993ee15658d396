"""What an exported run needs to be executed without Cellwright: `prepare` in a notebook, `Script` in a plain script."""

from cellwright_kernel.runtime.prepare import prepare
from cellwright_kernel.runtime.script import Script

__all__ = ["Script", "prepare"]
