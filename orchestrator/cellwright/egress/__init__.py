"""The only way out of a sandbox: a forward proxy outside, with an allow-list.

Flows in: the `--allow` entries, and whatever the inside sends to the proxy's Unix socket. Flows out: bytes to and from
the places that the entries name, and one `EgressRequest` for each request, let through or refused; and, of what goes in clear,
all that was said.
"""

from cellwright.egress.exchange import Timeouts, Tls
from cellwright.egress.outcome import EgressRequest
from cellwright.egress.proxy import EgressProxy
from cellwright.egress.rules import AllowList, forwards
from cellwright.egress.tape import Tape
from cellwright.egress.witness import Hears

__all__ = ["AllowList", "EgressProxy", "EgressRequest", "Hears", "Tape", "Timeouts", "Tls", "forwards"]
