# SPDX-License-Identifier: GPL-2.0
"""What test programs say (Documentation/dev-tools/ktap.rst)."""
import dataclasses
import re

RESULT = re.compile(r"^(ok|not ok) \d+ ?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)(?: # SKIP ?(.*))?$")


@dataclasses.dataclass
class Report:
    """The outcome of a test program: its single checks, and what is wrong with it as a whole."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    planned: int | None = None
    skip_reason: str | None = None
    faults: list[str] = dataclasses.field(default_factory=list)

    @property
    def outcome(self) -> str:
        """pass, fail or skip."""
        if self.failed or self.faults:
            return "fail"
        return "skip" if self.skip_reason is not None else "pass"


def parse(output: str, status: int) -> Report:
    """Reads a program's output. A missing plan, a wrong count or a bad exit status is a fault."""
    report = Report()
    for line in output.splitlines():
        if result := RESULT.match(line):
            skipped = "# SKIP" in result[2]
            report.failed += result[1] == "not ok"
            report.skipped += result[1] == "ok" and skipped
            report.passed += result[1] == "ok" and not skipped
        elif plan := PLAN.match(line):
            report.planned = int(plan[1])
            report.skip_reason = (plan[2] or "") if report.planned == 0 else None
    results = report.passed + report.failed + report.skipped
    if status == 124:
        report.faults.append("it took too long")
    elif report.planned is None:
        report.faults.append(f"it ended without a plan, with status {status}")
    elif report.planned != results:
        report.faults.append(f"{report.planned} checks planned, {results} made")
    elif status != 0 and not report.failed and report.skip_reason is None:
        report.faults.append(f"exit status {status}")
    if results == 0 and report.skip_reason is None and not report.faults:
        report.faults.append("it checked nothing")
    return report
