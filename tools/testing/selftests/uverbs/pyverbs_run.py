#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's own tests (pyverbs) and compares what becomes of each with what is expected.

  pyverbs_run.py DEVICE GID_INDEX [EXPECTED MISSING]

EXPECTED has lines "OUTCOME TEST", MISSING names of tests (or beginnings that end with *) whose objects the driver does
not have yet. A class of tests runs in a process of its own, forked when all of them have been imported; when that dies, the
rest of the class runs in another one.
Prints for each test "pass|NAME", "skip|NAME|WHY" (known to be missing, or skipped on the stock driver) or "fail|NAME|WHY"; without
EXPECTED the lines of such a file.
"""
import fnmatch
import gc
import gzip
import importlib
import itertools
import os
import pathlib
import re
import select
import signal
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator

SHIPPED = pathlib.Path("/usr/share/doc/rdma-core/tests")
UNPACKED = pathlib.Path("/run/pyverbs/tests")
# Tests of the devices of certain vendors.
VENDORS = re.compile("test_(bnxt|cuda|efa|erdma|hns|ionic|irdma|mana|mlx[45]|rdmacm_mlx5)")
LIMIT = 60 * int(os.environ.get("SLOWNESS", "1"))  # seconds for a class


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


def prepare(device: str, gid_index: str, modules: set[str]) -> None:
    """Imports the tests, which takes longer than most of them do."""
    gc.disable()  # with it two of the tests crash in libibverbs
    sys.path[:0] = [str(UNPACKED.parent), str(UNPACKED)]
    sys.argv = ["run_tests.py", "--dev", device, "--port", "1", "--gid", gid_index]
    from args_parser import parser  # by this name: the tests import it so
    parser.parse_args()
    for module in sorted(modules):
        importlib.import_module(module)


def module_of(name: str) -> str:
    return name.rsplit(".", 2)[0]


def tests_of(suite: unittest.TestSuite) -> list[str]:
    """The names of all tests in it."""
    return [name for each in suite for name in (tests_of(each) if isinstance(each, unittest.TestSuite) else [each.id()])]


def by_class(names: list[str]) -> Iterator[list[str]]:
    for _, group in itertools.groupby(names, key=lambda name: name.rsplit(".", 1)[0]):
        yield list(group)


def record(device: str, gid_index: str) -> None:
    """Prints what becomes of all tests that there are."""
    modules = {f"tests.{file.stem}" for file in UNPACKED.glob("test_*.py") if not VENDORS.match(file.stem)}
    prepare(device, gid_index, modules)
    names = {name for module in modules for name in tests_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[module]))}
    for group in by_class(sorted(name for name in names if module_of(name) in modules)):
        for name, (outcome, why) in run_class(group).items():
            if outcome not in ("PASS", "SKIP"):
                print(f"# {why}")
            print(outcome, name, flush=True)


def forked(names: list[str]) -> tuple[str, str]:
    """Runs tests in another process: what they told, and how it ended."""
    receive, send = os.pipe()
    with tempfile.TemporaryFile() as errors:
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.dup2(send, 1)
            os.dup2(errors.fileno(), 2)
            unittest.defaultTestLoader.loadTestsFromNames(names).run(Reporter())
            os._exit(0)
        os.close(send)
        told, end = b"", time.monotonic() + LIMIT
        while select.select([receive], [], [], max(0, end - time.monotonic()))[0]:
            data = os.read(receive, 65536)
            if not data:
                break
            told += data
        else:
            os.killpg(pid, signal.SIGKILL)
        os.close(receive)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        errors.seek(0)
        complaint = errors.read()[-200:].decode(errors="replace")
    late = f"hangs for {LIMIT} s: " if time.monotonic() >= end else ""
    return told.decode(errors="replace"), f"{late}exit status {status}: {complaint}"


def run_class(names: list[str]) -> dict[str, tuple[str, str]]:
    """Outcome and reason of each test."""
    outcomes: dict[str, tuple[str, str]] = {}
    while remaining := [name for name in names if name not in outcomes]:
        text, end = forked(remaining)
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
    device, gid_index, *files = sys.argv[1:]
    unpack()
    if not files:
        record(device, gid_index)
        return
    expected_file, missing_file = files
    lines = pathlib.Path(expected_file).read_text().splitlines()
    expected = {name: outcome for outcome, name in (line.split() for line in lines if line and line[0] != "#")}
    missing = [line for line in pathlib.Path(missing_file).read_text().splitlines() if line and line[0] != "#"]
    prepare(device, gid_index, {module_of(name) for name in expected})
    for group in by_class(list(expected)):
        for name, (outcome, why) in run_class(group).items():
            wanted = expected.get(name, "nothing")
            if outcome == "PASS" and name in missing:
                print(f"{name} passes: take it out of the list of what is missing")
            # What fails or is skipped on the stock driver may work on ours.
            if outcome == "SKIP" == wanted:
                print(f"skip|{name}|on the stock driver too: {why}")
            elif outcome == wanted or outcome == "PASS":
                print(f"pass|{name}" + (f" ({outcome.lower()})" if outcome != "PASS" else ""))
            # What is missing is refused; it ends no program.
            elif outcome != "DIED" and any(fnmatch.fnmatch(name, pattern) for pattern in missing):
                print(f"skip|{name}|{outcome}: {why}")
            elif wanted == "ERROR" and outcome == "FAIL":
                print(f"pass|{name} (fails in another way)")
            else:
                print(f"fail|{name}|expected {wanted}, {outcome}: {why}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
