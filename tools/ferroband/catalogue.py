# SPDX-License-Identifier: GPL-2.0
"""Which tests there are, and the rows of the feature list that they prove."""
import dataclasses
import os
import pathlib
import re

from .environment import REPO

TESTING = REPO / "tools/testing"
# `# rows: …`, `// rows: …` or `//! rows: …`, at the beginning of a line.
HEADER = re.compile(r"^\s*(?:#|//[/!]?|\*) (rows|timeout|guests|mix): *(.*)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Test:
    """One test, as its file describes it."""

    name: str
    kind: str  # host, build, static, guest or wire
    path: pathlib.Path
    rows: tuple[str, ...] = ()
    timeout: int = 60
    # Modules that must be ours for the test to make sense.
    mix: tuple[str, ...] = ()
    # Wire tests: whose modules host A has, "ours" or "stock"; B has the others.
    host_a: str = ""


def headers(text: str) -> dict[str, str]:
    """The header lines of a test's file; those that stand several times are joined."""
    found: dict[str, list[str]] = {}
    for key, value in HEADER.findall(text):
        found.setdefault(key, []).append(value)
    return {key: " ".join(values) for key, values in found.items()}


def rows_of(text: str) -> list[str]:
    """The row ids in a test's header lines, with blanks or commas between."""
    return headers(text).get("rows", "").replace(",", " ").split()


def _executables(directory: pathlib.Path, pattern: str) -> list[pathlib.Path]:
    return sorted(p for p in directory.glob(pattern) if p.is_file() and os.access(p, os.X_OK))


def _crate(manifest: pathlib.Path) -> Test:
    sources = [p for p in manifest.parent.rglob("*.rs") if "target" not in p.relative_to(manifest.parent).parts]
    rows: set[str] = set()
    for source in sources:
        rows |= set(rows_of(source.read_text()))
    return Test(f"host/{manifest.parent.name}", "host", manifest, tuple(sorted(rows)), timeout=1200)


def _guest_tests(path: pathlib.Path) -> list[Test]:
    found = headers(path.read_text())
    common = {"path": path, "rows": tuple(rows_of(path.read_text())), "timeout": int(found.get("timeout", 60)),
              "mix": tuple(found.get("mix", "").split())}
    if found.get("guests", "1").strip() == "2":
        return [Test(f"wire/{path.stem}-{a}-{b}", "wire", host_a=a, **common)
                for a, b in (("stock", "ours"), ("ours", "stock"))]
    return [Test(f"guest/{path.stem}", "guest", **common)]


def all_tests() -> list[Test]:
    """Every test of the repository, in the order in which they run."""
    crates = [REPO / "hw/rxe/roce/Cargo.toml", *sorted((TESTING / "host").glob("**/Cargo.toml"))]
    tests = [_crate(manifest) for manifest in crates if manifest.exists()]
    tests += [Test(f"build/{name}", "build", REPO / "Makefile", timeout=1200)
              for name in ("modules", "clippy", "rustfmt")]
    for path in _executables(TESTING / "static", "*"):
        text = path.read_text()
        tests.append(Test(f"static/{path.stem}", "static", path, tuple(rows_of(text)),
                          timeout=int(headers(text).get("timeout", 300))))
    scripts = [t for path in _executables(TESTING / "selftests", "*.sh") for t in _guest_tests(path)]
    return tests + sorted(scripts, key=lambda test: test.kind)


@dataclasses.dataclass(frozen=True)
class Rows:
    """The feature list: tools/testing/rows.tsv."""

    groups: dict[str, str]
    priority: dict[str, str]


def read_rows() -> Rows:
    groups, priority = {}, {}
    for line in (TESTING / "rows.tsv").read_text().splitlines():
        if line.startswith("# group "):
            number, title = line.removeprefix("# group ").split("\t")
            groups[number] = title
        elif not line.startswith("#"):
            row, prio, _ = line.split("\t")
            priority[row] = prio
    return Rows(groups, priority)
