#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's own tests (pyverbs) and compares what becomes of each with what is expected.

  pyverbs_run.py DEVICE GID_INDEX EXPECTED MISSING

EXPECTED has lines "OUTCOME TEST", MISSING names of tests (or beginnings that end with *) whose objects the driver does
not have yet. A class of tests runs in a process of its own; when that dies, the rest of the class runs in another one.
Prints for each test "pass|NAME", "skip|NAME|WHY" (known to be missing) or "fail|NAME|WHY".
"""
import fnmatch
import gc
import gzip
import itertools
import pathlib
import subprocess
import sys
import unittest

SHIPPED = pathlib.Path("/usr/share/doc/rdma-core/tests")
UNPACKED = pathlib.Path("/run/pyverbs/tests")
LIMIT = 60  # seconds for a class


def unpack() -> None:
    """The documentation's files, some compressed, as a package."""
    UNPACKED.mkdir(parents=True, exist_ok=True)
    for file in SHIPPED.iterdir():
        data = file.read_bytes()
        (UNPACKED / file.name.removesuffix(".gz")).write_bytes(gzip.decompress(data) if file.suffix == ".gz" else data)


class Reporter(unittest.TestResult):
    """One line for each test, as soon as it has ended."""

    def tell(self, outcome: str, test, why: str = "") -> None:
        print("@", outcome, test.id(), " ".join(str(why).split())[-300:], sep="\t", flush=True)

    def startTest(self, test) -> None:
        super().startTest(test)
        self.tell("START", test)

    def addSuccess(self, test) -> None:
        self.tell("PASS", test)

    def addSkip(self, test, reason) -> None:
        self.tell("SKIP", test, reason)

    def addFailure(self, test, err) -> None:
        self.tell("FAIL", test, err[1])

    def addError(self, test, err) -> None:
        self.tell("ERROR", test, err[1])


def child(device: str, gid_index: str, names: list[str]) -> None:
    gc.disable()  # with it two of the tests crash in libibverbs
    sys.path[:0] = [str(UNPACKED.parent), str(UNPACKED)]
    sys.argv = ["run_tests.py", "--dev", device, "--port", "1", "--gid", gid_index]
    from args_parser import parser  # by this name: the tests import it so
    parser.parse_args()
    unittest.defaultTestLoader.loadTestsFromNames(names).run(Reporter())


def run_class(device: str, gid_index: str, names: list[str]) -> dict[str, tuple[str, str]]:
    """Outcome and reason of each test."""
    outcomes: dict[str, tuple[str, str]] = {}
    while remaining := [name for name in names if name not in outcomes]:
        command = [sys.executable, __file__, "--child", device, gid_index, *remaining]
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, errors="replace")
            text, end = process.stdout, f"exit status {process.returncode}: {process.stderr[-200:]}"
        except subprocess.TimeoutExpired as late:
            text, end = (late.stdout or b"").decode(errors="replace"), f"hangs for {LIMIT} s"
        running = remaining[0]
        for line in text.splitlines():
            if line.startswith("@\t"):
                _, outcome, name, why = line.split("\t", 3)
                if outcome == "START":
                    running = name
                else:
                    outcomes[name] = (outcome, why)
        if all(name in outcomes for name in names):
            break
        if running in outcomes:  # it died between two tests
            running = next(name for name in remaining if name not in outcomes)
        outcomes[running] = ("DIED", " ".join(end.split()))
    return outcomes


def main() -> None:
    device, gid_index, expected_file, missing_file = sys.argv[1:]
    lines = pathlib.Path(expected_file).read_text().splitlines()
    expected = {name: outcome for outcome, name in (line.split() for line in lines if line and line[0] != "#")}
    missing = [line for line in pathlib.Path(missing_file).read_text().splitlines() if line and line[0] != "#"]
    unpack()
    for _, group in itertools.groupby(expected, key=lambda name: name.rsplit(".", 1)[0]):
        for name, (outcome, why) in run_class(device, gid_index, list(group)).items():
            wanted = expected.get(name, "nothing")
            if outcome == "PASS" and name in missing:
                print(f"{name} passes: take it out of the list of what is missing")
            # What fails or is skipped on the stock driver may work on ours.
            if outcome == wanted or outcome == "PASS":
                print(f"pass|{name}" + (f" ({outcome.lower()})" if outcome != "PASS" else ""))
            elif any(fnmatch.fnmatch(name, pattern) for pattern in missing):
                print(f"skip|{name}|{outcome}: {why}")
            elif wanted == "ERROR" and outcome in ("FAIL", "DIED"):
                print(f"pass|{name} (fails in another way: {outcome})")
            else:
                print(f"fail|{name}|expected {wanted}, {outcome}: {why}")
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
