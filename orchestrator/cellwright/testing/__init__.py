"""For tests, ours and other people's: doubles, a model server, and conformance suites for backends and execution services."""

from cellwright.emulator.faults import PlannedFault
from cellwright.emulator.rules import ServerRules
from cellwright.emulator.script import Script
from cellwright.testing.backend import check_backend
from cellwright.testing.clock import FakeClock
from cellwright.testing.emulated import EmulatedServer, emulator
from cellwright.testing.fake_sandbox import FakeBackend, FakeSandbox
from cellwright.testing.model import ScriptedModel
from cellwright.testing.report import Nonconformance, Report
from cellwright.testing.service import check_execution_service

__all__ = [
    "EmulatedServer",
    "FakeBackend",
    "FakeClock",
    "FakeSandbox",
    "Nonconformance",
    "PlannedFault",
    "Report",
    "Script",
    "ScriptedModel",
    "ServerRules",
    "check_backend",
    "check_execution_service",
    "emulator",
]
