"""`python -m tests.soak [SCALE]`: the long ones, with their figures.

Flows in: how much of each. Flows out: a line of figures for each rule with PASS or FAIL before it; exit status 1 when one
failed. Decided here: the rules that need a quiet machine; the tests ask for the others.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.soak.eight_hours import Worked, eight_hours
from tests.soak.fifty_runs import PER_SECOND, RUNS, Waited, fifty_runs
from tests.soak.holdings import Holdings
from tests.soak.killed_runs import KILLED, Killed, killed_runs
from tests.soak.made_up_requests import REQUESTS, Asked, made_up_requests
from tests.soak.many_cells import Lasted, many_cells
from tests.soak.many_sessions import SESSIONS, Answered, many_sessions
from tests.soak.replayed_runs import AGAIN, Done, replayed_run, run_names

WITHIN = 1.10
WITHIN_OF_THE_RATE = 1.15


def main(scale: float) -> int:
    """Do all of it; return the exit status."""
    passed = True
    with tempfile.TemporaryDirectory(prefix="cellwright-soak-") as folder:
        os.environ["CELLWRIGHT_STATE"] = folder
        for part in (
            lambda: _of_cells(asyncio.run(many_cells(scale, compared=True))),
            lambda: _of_work(asyncio.run(eight_hours(scale))),
            lambda: _of_sessions(asyncio.run(many_sessions(max(2, round(SESSIONS * scale)), Path(folder)))),
            lambda: _of_runs(asyncio.run(fifty_runs(max(10, round(RUNS * scale)))), max(10, round(RUNS * scale))),
            lambda: _of_requests(made_up_requests(round(REQUESTS * scale), Path(folder))),
            lambda: _of_killed(killed_runs(max(4, round(KILLED * scale)), seed=6)),
            lambda: _of_replayed(asyncio.run(_replayed(max(1, round(len(run_names()) * scale)), Path(folder)))),
        ):
            for is_good, sentence in part():
                print("PASS" if is_good else "FAIL", sentence, flush=True)
                passed = passed and is_good
    return 0 if passed else 1


def _of_cells(lasted: Lasted) -> list[tuple[bool, str]]:
    ratio = lasted.ratio or 0.0
    return [
        (
            0 < ratio <= WITHIN,
            f"{lasted.cells} cells in one session: log(1) took {lasted.first_ms:.2f} ms at the beginning and "
            f"{lasted.last_ms:.2f} at the end, then {ratio:.2f} times a new session's, in turns; "
            f"{lasted.cells_a_second:.0f} cells a second",
        ),
        (lasted.host_ratio <= WITHIN, f"resident memory at the end: {_memory(lasted.before, lasted.after)}"),
        (not lasted.growth, f"growth: {'; '.join(lasted.growth) or 'none'}"),
    ]


def _of_work(worked: Worked) -> list[tuple[bool, str]]:
    return [
        (
            not worked.growth,
            f"{worked.screenshots} screenshots, {worked.page_loads} page loads, {worked.tabs} tabs in {worked.took_s:.0f} s: "
            f"growth: {'; '.join(worked.growth) or 'none'}; files {len(worked.before.files)} -> {len(worked.after.files)}; "
            f"{_memory(worked.before, worked.after)}",
        )
    ]


def _of_sessions(answered: Answered) -> list[tuple[bool, str]]:
    all_answered = answered.answers == [str(number) for number in range(answered.sessions)]
    return [
        (
            all_answered and answered.displays == answered.sessions,
            f"{answered.sessions} sessions without a browser at once: opened in {answered.opened_s:.0f} s, all answered within "
            f"{answered.answered_ms:.0f} ms, {answered.pss_bytes >> 20} MB in all, "
            f"{(answered.pss_bytes >> 20) / answered.sessions:.0f} a session",
        )
    ]


def _of_runs(waited: Waited, runs: int) -> list[tuple[bool, str]]:
    return [
        (
            waited.done == runs and not waited.refused and waited.most_in_a_second <= PER_SECOND,
            f"{waited.done} of {runs} runs at once done: {waited.requests} requests, at most {waited.most_in_a_second} in any second "
            f"of {PER_SECOND} allowed, {waited.refused} refused",
        ),
        (
            waited.ratio <= WITHIN_OF_THE_RATE,
            f"they took {waited.took_s:.1f} s, {waited.ratio:.3f} times the least that so many requests take",
        ),
    ]


def _of_requests(asked: Asked) -> list[tuple[bool, str]]:
    statuses = ", ".join(f"{count} of {status}" for status, count in sorted(asked.statuses.items()))
    return [
        (
            asked.server_errors == 0,
            f"{asked.requests} made-up requests in {asked.took_s:.0f} s: {asked.server_errors} server errors; {statuses}",
        ),
        (not asked.faults, f"answers that are not as described: {len(asked.faults)}\n{''.join(asked.faults.values())}"),
    ]


def _of_killed(killed: list[Killed]) -> list[tuple[bool, str]]:
    wrong = [f"{one.moment}, {one.status}: {' '.join(one.faults)}" for one in killed if one.faults]
    stopped = sum(one.status not in ("done", "absent") for one in killed)
    return [
        (
            not wrong,
            f"{len(killed)} demos killed at random moments, {stopped} before their end, and resumed: "
            f"{len(wrong)} reports are not as they must be\n{chr(10).join(wrong)}",
        )
    ]


async def _replayed(runs: int, folder: Path) -> list[Done]:
    return [await replayed_run(name, folder) for name in run_names()[:runs]]


def _of_replayed(replayed: list[Done]) -> list[tuple[bool, str]]:
    alarms = [f"{one.name}: {alarm}" for one in replayed for alarm in one.alarms]
    cells = sum(len(one.statuses) for one in replayed)
    return [
        (
            not alarms,
            f"{len(replayed)} different runs of {cells} cells, each replayed {AGAIN} times: {len(alarms)} false alarms\n"
            f"{chr(10).join(alarms)}",
        )
    ]


def _memory(before: Holdings, after: Holdings) -> str:
    names = (
        "kernel host",
        "Python kernel",
        "JavaScript kernel",
        "JavaScript kernel's Node",
        "Playwright's driver",
        "Xvnc",
    )
    pairs = [(name, before.resident_kb[name] >> 10, after.resident_kb[name] >> 10) for name in names]
    return ", ".join(f"{name} {was} -> {now} MB" for name, was, now in pairs if was)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
