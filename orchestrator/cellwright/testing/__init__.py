"""For tests, ours and other people's: doubles, and conformance suites for sandbox backends and execution services."""

from cellwright.testing.backend import check_backend
from cellwright.testing.clock import FakeClock
from cellwright.testing.fake_sandbox import FakeBackend, FakeSandbox
from cellwright.testing.model import ScriptedModel
from cellwright.testing.report import Nonconformance, Report
from cellwright.testing.service import check_execution_service

__all__ = [
    "FakeBackend",
    "FakeClock",
    "FakeSandbox",
    "Nonconformance",
    "Report",
    "ScriptedModel",
    "check_backend",
    "check_execution_service",
]
