# SPDX-License-Identifier: GPL-2.0
"""What the tests of a commit have proved: the record of their results, and the rows of the feature list that it credits.

A row is proved where a test that names it has passed with our modules in all that the row is about (`# group` in rows.tsv),
and no test that names it has failed with any module of ours. Tests that ran in part only (BRIEF) take away, but do not give.
"""
import dataclasses
import hashlib
import os
import pathlib
import subprocess
from collections.abc import Iterable

from .catalogue import Rows

# Of a line of a record.
FIELDS = 9


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a test. `mix` are the modules that were ours."""

    test: str
    outcome: str
    seconds: float
    rows: tuple[str, ...]
    mix: tuple[str, ...]
    kernel: str
    commit: str
    # When it ended, in UTC.
    time: str
    # Whether only a part of it was run.
    brief: bool = False

    def line(self) -> str:
        return "\t".join((self.test, self.outcome, f"{self.seconds:.1f}", " ".join(self.rows), " ".join(self.mix), self.kernel,
                          self.commit, self.time, "brief" if self.brief else "whole"))


def parse(text: str) -> list[Result]:
    """The results in the lines of a record. Lines of another format are none."""
    found = []
    for fields in (line.split("\t") for line in text.splitlines()):
        if len(fields) != FIELDS:
            continue
        test, outcome, seconds, rows, mix, kernel, commit, time, how_much = fields
        found.append(Result(test, outcome, float(seconds), tuple(rows.split()), tuple(mix.split()), kernel, commit, time,
                            how_much == "brief"))
    return found


def commit_of(repo: pathlib.Path) -> str:
    """The commit of a work tree; where it was changed since, with a hash of the changes."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", "-C", str(repo), *arguments], check=True, capture_output=True).stdout

    changes = hashlib.sha256(git("diff", "HEAD"))
    # Another repository inside of this one is told as a folder.
    untracked = git("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    for name in filter(None, untracked):
        path = repo / os.fsdecode(name)
        changes.update(name + (path.read_bytes() if path.is_file() else b""))
    head = git("rev-parse", "--short=12", "HEAD").decode().strip()
    is_changed = changes.digest() != hashlib.sha256().digest()
    return f"{head}+{changes.hexdigest()[:8]}" if is_changed else head


def merged(old: Iterable[Result], new: list[Result]) -> list[Result]:
    """A record with the results of another run: those of other commits go, and those of tests that ran again."""
    commits = {result.commit for result in new}
    again = {(result.test, result.mix) for result in new}
    return [result for result in old if result.commit in commits and (result.test, result.mix) not in again] + new


def proved(results: Iterable[Result], rows: Rows) -> set[str]:
    """The rows that are proved."""
    gained: set[str] = set()
    lost: set[str] = set()
    for result in results:
        known = [row for row in result.rows if row in rows.priority]
        if result.outcome == "fail" and result.mix:
            lost.update(known)
        elif result.outcome == "pass" and not result.brief:
            gained.update(row for row in known if rows.modules_of(row) <= set(result.mix))
    return gained - lost
