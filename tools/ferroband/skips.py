# SPDX-License-Identifier: GPL-2.0
"""Skips that are expected: tools/testing/expected-skips.tsv. A skip that nobody has named is a check that silently went away."""
import dataclasses
import re

from .environment import REPO

EXPECTED = REPO / "tools/testing/expected-skips.tsv"
# For the check: the whole program.
PROGRAM = "-"


@dataclasses.dataclass(frozen=True)
class Skip:
    """An expected skip: regular expressions, and the module of ours without which it happens ("-": always). That of the kernel is for its
    name, or for its name with the release of Debian's after an @.
    """

    kernel: str
    without: str
    test: str
    check: str
    why: str

    def covers(self, kernel: str, mix: tuple[str, ...], test: str, check: str) -> bool:
        is_its_kernel = any(re.fullmatch(self.kernel, name) for name in (kernel, kernel.partition("@")[0]))
        is_its_mix = self.without == "-" or self.without not in mix
        is_its_check = check == PROGRAM if self.check == PROGRAM else bool(re.fullmatch(self.check, check))
        return is_its_kernel and is_its_mix and is_its_check and bool(re.fullmatch(self.test, test))


def parse(text: str) -> list[Skip]:
    return [Skip(*line.split("\t")) for line in text.splitlines() if line and not line.startswith("#")]


def unexpected(expected: list[Skip], kernel: str, mix: tuple[str, ...], test: str, checks: list[str]) -> list[str]:
    """The skipped checks of a test program that are in no list."""
    return [check for check in checks if not any(skip.covers(kernel, mix, test, check) for skip in expected)]
