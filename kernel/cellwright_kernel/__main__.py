"""`python -m cellwright_kernel --settings JSON`: starts the kernel host.

Flows in: `HostSettings` as JSON. Flows out: exit status 0 when told to stop, 2 when the settings can't be read.
"""

from __future__ import annotations

import argparse
import asyncio

from pydantic import ValidationError

from cellwright_kernel.call_filter import take_on
from cellwright_kernel.host import run
from cellwright_kernel.malloc import keep_little
from cellwright_kernel.wire import HostSettings


def main() -> None:
    """Read the command line and run the kernel host."""
    parser = argparse.ArgumentParser(prog="python -m cellwright_kernel", description="The kernel host of one sandbox.")
    parser.add_argument("--settings", required=True, metavar="JSON", help="HostSettings as JSON")
    arguments = parser.parse_args()
    try:
        settings = HostSettings.model_validate_json(arguments.settings)
    except ValidationError as error:
        parser.error(f"these are no settings: {error.errors(include_url=False)[0]['msg']}")
    if settings.call_filter is not None:
        take_on(settings.call_filter)
    keep_little()
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
