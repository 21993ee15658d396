"""The demo: a scripted model fills in an expense report on a real, isolated desktop. Offline, no key.

    python demo.py [--out FOLDER]

Flows in: `expenses.csv`, which is copied into the sandbox. Flows out: the report that the web application keeps on its own
disk, the run, what the sandbox left in FOLDER. Decided here: that it succeeded only if the application's stored report
is exact; what the model says about it doesn't count.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cellwright.record import list_runs, read_run, runs_folder
from cellwright.record.records import Screen

HERE = Path(__file__).parent
SOURCE = HERE / "expenses.csv"
TASK = (
    "Enter every expense of expenses.csv into the expense report at the address in EXPENSES_URL, sign it by hand, submit "
    "it, and leave a summary in summary.txt."
)
TOTALS = {"EUR": "208.20", "USD": "59.99", "GBP": "14.50", "JPY": "2480"}


def main() -> int:
    """Run the demo; return the exit status: 0, or 1 when the stored report is not what it must be."""
    parser = argparse.ArgumentParser(description="A scripted model fills in an expense report.")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for what the demo leaves; emptied first")
    out = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    with application(out / "application") as url:
        known = {run.run_id for run in list_runs()}
        ended = run_to_its_end(command(url, out / "sandbox"))
        if ended != 0:
            print(
                f"demo: `cellwright run` ended with status {ended}; `cellwright show` on its run says why",
                file=sys.stderr,
            )
            return ended
        faults = [*faults_of_report(out / "application"), *faults_of_sandbox(out / "sandbox")]

    folder = next(runs_folder() / run.run_id for run in list_runs() if run.run_id not in known)
    print()
    print(f"report      {out / 'application' / 'report.json'}")
    print(f"run         {folder}")
    print(f"screenshot  {final_screenshot(folder, out)}")
    print(f"again       cellwright replay {folder.name} --env EXPENSES_URL={url}")
    for fault in faults:
        print(f"demo: {fault}", file=sys.stderr)
    if not faults:
        print("The stored report holds every row of expenses.csv, the right totals, and a signature.")
    return 1 if faults else 0


@contextmanager
def application(folder: Path) -> Iterator[str]:
    """Start the web application in a process of its own; its address."""
    command = [sys.executable, str(HERE / "app.py"), "--state", str(folder)]
    # a session of its own: Ctrl-C is for the run, which still talks to the application while it closes
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            word, _, url = process.stdout.readline().strip().partition(" ")
            if word != "ready":
                raise SystemExit("demo: the web application did not start; its own words stand above")
            yield url
        finally:
            process.terminate()


def run_to_its_end(line: list[str]) -> int:
    """Run a command and return its status; on Ctrl-C it is the command that decides when to end."""
    with subprocess.Popen(line) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


def command(url: str, out: Path) -> list[str]:
    """Return the command line a person would type, with this environment's `cellwright`."""
    place = url.removeprefix("http://").removesuffix("/")
    return [
        *(sys.executable, "-m", "cellwright", "run", TASK),
        *("--emulate", str(HERE / "model.md")),
        *("--allow", place, "--file", str(SOURCE), "--out", str(out), "--env", f"EXPENSES_URL={url}"),
    ]


def faults_of_report(folder: Path) -> list[str]:
    """Compare what the application has on disk with the CSV file; return each difference as a sentence."""
    stored = folder / "report.json"
    if not stored.exists():
        return ["The application has no report on disk."]
    report = json.loads(stored.read_text(encoding="utf-8"))
    with SOURCE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    faults = []
    if report["entries"] != rows:
        faults.append(f"The stored entries are not the rows of the file: {report['entries']}")
    if report["totals"] != TOTALS:
        faults.append(f"The stored totals are {report['totals']}, not {TOTALS}.")
    signature = report["signature"]
    if signature is None or signature["points"] < 40 or not (folder / "signature.png").exists():
        faults.append(f"The stored report is not signed: {signature}")
    return faults


def faults_of_sandbox(folder: Path) -> list[str]:
    """Check what was copied out of the sandbox; return each fault as a sentence."""
    summary = folder / "summary.txt"
    expected = "8 entries submitted: 208.20 EUR, 59.99 USD, 14.50 GBP, 2480 JPY\n"
    if not summary.exists():
        return ["No summary.txt came out of the sandbox."]
    found = summary.read_text(encoding="utf-8")
    return [] if found == expected else [f"summary.txt says {found!r}."]


def final_screenshot(folder: Path, out: Path) -> Path:
    """Copy the run's last screenshot where it can be opened by its name; return the copy."""
    run = read_run(folder)
    screens = [record for record in run.records if isinstance(record, Screen)]
    picture = out / "desktop.png"
    picture.write_bytes(run.blobs.read(screens[-1].image.sha256))
    return picture


if __name__ == "__main__":
    sys.exit(main())
