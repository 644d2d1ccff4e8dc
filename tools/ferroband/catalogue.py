# SPDX-License-Identifier: GPL-2.0
"""Which tests there are, and the rows of the feature list that they prove."""
import dataclasses
import os
import pathlib
import re

from .environment import REPO

TESTING = REPO / "tools/testing"
# `# rows: …`, `// rows: …` or `//! rows: …`, at the beginning of a line.
HEADER = re.compile(r"^\s*(?:#|//[/!]?|\*) (rows|timeout|guests|mix|mixes): *(.*)$", re.MULTILINE)

# Mixes of our modules and stock ones, by name. Besides the default one (overlay.default_mix), tests that say `mixes: all`
# run in the first two, `mixes: every` in each; a test that needs some modules to be ours runs in the first that has them,
# or with `mixes: all` in all that have them. Any other mix: make check MIX="…".
MIXES = {
    "ib_core": ("ib_core",),
    "ours": ("ib_core", "ib_uverbs", "ib_uverbs_support", "rdma_rxe"),
    "rdma_rxe": ("rdma_rxe",),
    "ib_uverbs": ("ib_uverbs", "ib_uverbs_support"),
    "ib_core+rdma_rxe": ("ib_core", "rdma_rxe"),
    "ib_core+ib_uverbs": ("ib_core", "ib_uverbs", "ib_uverbs_support"),
}
USUAL = tuple(MIXES)[:2]


@dataclasses.dataclass(frozen=True)
class Test:
    """One test, as its file describes it."""

    name: str
    kind: str  # host, build, static, guest or wire
    path: pathlib.Path
    rows: tuple[str, ...] = ()
    timeout: int = 60
    # Modules that must be ours for the test to make sense.
    needs: tuple[str, ...] = ()
    # Which modules are ours; None: what was asked for, or the default.
    mix: tuple[str, ...] | None = None
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
    text = path.read_text()
    found = headers(text)
    needs = set(found.get("mix", "").split())
    test = Test(f"guest/{path.stem}", "guest", path, tuple(rows_of(text)), int(found.get("timeout", 60)),
                tuple(sorted(needs)))
    if found.get("guests", "1").strip() == "2":
        return [dataclasses.replace(test, name=f"wire/{path.stem}-{a}-{b}", kind="wire", host_a=a)
                for a, b in (("stock", "ours"), ("ours", "stock"))]
    wanted = {"every": tuple(MIXES), "all": USUAL, "": USUAL}[found.get("mixes", "").strip()]
    mixes = [name for name in wanted if needs <= set(MIXES[name])]
    if "mixes" not in found:
        mixes = mixes[:1] if needs else []
    # A row is proved in the default mix, or where the modules that it is about are ours.
    return [test] + [dataclasses.replace(test, name=f"{test.name}@{name}", mix=MIXES[name], rows=test.rows if needs else ())
                     for name in mixes]


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
    # What runs in the same mix stands together: it shares a boot.
    order = [None, *MIXES.values()]
    return tests + sorted(scripts, key=lambda test: (test.kind, order.index(test.mix)))


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
