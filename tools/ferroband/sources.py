# SPDX-License-Identifier: GPL-2.0
"""Copies of the sources, for builds that must not meet the objects of another one: those for other kernels, mutations.

  python3 -m ferroband.sources DIRECTORY
"""
import pathlib
import shutil
import subprocess
import sys

from .environment import REPO


# The names of what was copied. A copy may be copied again: git knows nothing of it.
LIST = ".copied"


def listed() -> set[str]:
    """The names of the sources."""
    if (REPO / LIST).exists():
        names = (REPO / LIST).read_text()
    else:
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPO, check=True,
                               capture_output=True, text=True).stdout
    return {name for name in names.split("\0") if name and (REPO / name).is_file()}


def copy_sources(target: pathlib.Path) -> None:
    """Makes `target` a copy of the sources; what has not changed keeps its time, so that a build there goes on."""
    wanted = listed()
    known = target / LIST
    for name in set(known.read_text().split("\0") if known.exists() else ()) - wanted:
        (target / name).unlink(missing_ok=True)
    for name in wanted:
        source, copy = REPO / name, target / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    known.write_text("\0".join(sorted(wanted)))


if __name__ == "__main__":
    copy_sources(pathlib.Path(sys.argv[1]))
