# SPDX-License-Identifier: GPL-2.0
"""The kernels of Debian that there are (packaging/kernels), and how far each is tested."""
import dataclasses

from .environment import REPO

# The word of `state` for those that DKMS builds for; the others are "smoke" and "untested".
TESTED = "tested"
# The word of `ci` for those on which CI runs the smoke choice; the others are "all" and "demand".
CI_SMOKE = "smoke"


@dataclasses.dataclass(frozen=True)
class Release:
    """One of them."""

    name: str
    # Of its packages.
    version: str
    # Whose tool chain built it.
    suite: str
    state: str
    # What CI runs on it.
    ci: str


def releases() -> list[Release]:
    """All of them, the usual one first."""
    return [Release(*line.split("\t")) for line in (REPO / "packaging/kernels").read_text().splitlines() if not line.startswith("#")]


def tested() -> list[Release]:
    """Those that DKMS builds for."""
    return [release for release in releases() if release.state == TESTED]


def source_package(release: str) -> str:
    """The package of Debian with the source of a kernel."""
    return f"linux-source-{'.'.join(release.split('.')[:2])}"
