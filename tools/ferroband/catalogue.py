# SPDX-License-Identifier: GPL-2.0
"""Which tests there are, on which kernels and in which mixes they run, and the rows of the feature list that they prove."""
import dataclasses
import os
import pathlib
import re
import tomllib

from .environment import RELEASE, REPO
from .releases import CI_SMOKE, releases

TESTING = REPO / "tools/testing"
# `# rows: …`, `// rows: …` or `//! rows: …`, at the beginning of a line; `# rows uml: …` are rows that the test proves on that kernel alone,
# `# rows long: …` those that it proves in a long run alone, on the first of its kernels.
HEADER = re.compile(r"^\s*(?:#|//[/!]?|\*) (rows(?: \w+)?|timeout|guests|mix|mixes|kernels(?: long)?|provokes|allows|long|when|smoke|images?|packages|cpus): *(.*)$", re.MULTILINE)

# Mixes of our modules and stock ones, by name. Besides the default one, which has all that are ours, a test runs in those that its line
# `mixes:` names (`all`: the first one), `mixes: long` in none; in a long run each test with such a line runs in every mix. Of these, those
# that have the modules which a test needs to be ours. Any other mix: make check MIX="…".
MIXES = {
    "ib_core": ("ib_core",),
    "rdma_rxe": ("rdma_rxe",),
    "ib_uverbs": ("ib_uverbs", "ib_uverbs_support"),
    "ib_umad": ("ib_umad",),
    "ib_cm": ("ib_cm",),
    "iw_cm": ("iw_cm",),
    "rdma_cm": ("rdma_cm",),
    "rdma_ucm": ("rdma_ucm",),
    "ib_core+rdma_rxe": ("ib_core", "rdma_rxe"),
    "ib_core+ib_uverbs": ("ib_core", "ib_uverbs", "ib_uverbs_support"),
}
USUAL = next(iter(MIXES))
# Where one module (or pair) is ours.
SINGLE = ("ib_core", "rdma_rxe", "ib_uverbs", "ib_umad", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm")

# How much is run: what CI runs; all that makes sense on the kernel that was asked for; all there is.
CI, KERNEL_ASKED, LONG = "ci", "kernel", "long"
KERNELS = ("stock", "debug", "uml", "kcsan", "kasan")
# Even in a long run only for the tests that name them, and only in the full-Rust mix.
ON_DEMAND = ("kcsan", "kasan")
# Processors of a guest that shows what happens at the same time.
MOST_CPUS = 2
# The variable by which a test is asked for a part of what it does.
BRIEF = "BRIEF=yes"


@dataclasses.dataclass(frozen=True)
class Test:
    """One test, as its file describes it."""

    name: str
    kind: str  # host, build, static, guest, wire or release
    path: pathlib.Path
    rows: tuple[str, ...] = ()
    timeout: int = 60
    # Modules that must be ours for the test to make sense.
    needs: tuple[str, ...] = ()
    # Which modules are ours; None: what was asked for, or the default.
    mix: tuple[str, ...] | None = None
    # Wire tests: whose modules host A has, "ours" or "stock"; B has the others.
    host_a: str = ""
    # Kinds of complaints (kernellog.KINDS) that the kernel must make in it.
    provokes: tuple[str, ...] = ()
    # Kinds that it may make.
    allows: tuple[str, ...] = ()
    # Variables that the program gets.
    env: str = ""
    # Whether it is one of the few that touch every module.
    smoke: bool = False
    # The guest's file system, one of Paths.images.
    image: str = ""
    # Whether the guest has stock modules and our packages, and the test installs these.
    packages: bool = False
    # Processors of the guest.
    cpus: int = 1

    @property
    def counted(self) -> str:
        """What the list of numbers of checks calls it: its program, and the file system where it is a further one (`images:`)."""
        _, colon, image = self.name.partition(":")
        return f"{self.path.stem}{colon}{image}"


def headers(text: str) -> dict[str, str]:
    """The header lines of a test's file; those that stand several times are joined."""
    found: dict[str, list[str]] = {}
    for key, value in HEADER.findall(text):
        found.setdefault(key, []).append(value)
    return {key: " ".join(values) for key, values in found.items()}


def rows_of(text: str, kernel: str = "stock", *, is_long: bool = False) -> list[str]:
    """The row ids in a test's header lines, with blanks or commas between: those of any kernel, those of this one, and those of a
    long run.
    """
    found = headers(text)
    if unknown := [key for key in found if key.startswith("rows ") and key.split()[1] not in (*KERNELS, LONG)]:
        raise ValueError(f"a header names no kernel: {unknown}")
    keys = ("rows", f"rows {kernel}", *([f"rows {LONG}"] if is_long else []))
    return " ".join(found.get(key, "") for key in keys).replace(",", " ").split()


def _executables(directory: pathlib.Path, pattern: str) -> list[pathlib.Path]:
    return sorted(p for p in directory.glob(pattern) if p.is_file() and os.access(p, os.X_OK))


def _crate(manifest: pathlib.Path) -> Test:
    sources = [p for p in manifest.parent.rglob("*.rs") if "target" not in p.relative_to(manifest.parent).parts]
    rows: set[str] = set()
    for source in sources:
        rows |= set(rows_of(source.read_text()))
    name = tomllib.loads(manifest.read_text())["package"]["name"]
    return Test(f"host/{name}", "host", manifest, tuple(sorted(rows)), timeout=1200)


def _guest_tests(path: pathlib.Path, kernel: str, scope: str) -> list[Test]:
    text = path.read_text()
    found = headers(text)
    if not _runs_on(found, kernel, scope):
        return []
    timeout, env = int(found.get("timeout", 60)), ""
    is_long = scope == LONG and "long" in found and kernel == _kernels(found)[0]
    if is_long:
        seconds, _, env = found["long"].partition(" ")
        timeout = int(seconds)
    test = Test(f"guest/{path.stem}", "guest", path, tuple(rows_of(text, kernel, is_long=is_long)), timeout,
                tuple(sorted(found.get("mix", "").split())), provokes=tuple(found.get("provokes", "").split()),
                allows=tuple(value.strip() for key, value in HEADER.findall(text) if key == "allows"), env=env, smoke="smoke" in found,
                image=found.get("image", ""), packages="packages" in found, cpus=_cpus(found, kernel))
    if found.get("guests", "1").strip() == "2":
        return [dataclasses.replace(test, name=f"wire/{path.stem}-{a}-{b}{mark(kernel)}", kind="wire", host_a=a)
                for a, b in (("stock", "ours"), ("ours", "stock"))]
    others = [dataclasses.replace(test, name=f"{test.name}@{name}", mix=MIXES[name], env=BRIEF if scope == CI else env, smoke=False)
              for name in _mixes(found, set(test.needs), kernel, scope)]
    # They are about the programs there: rows are proved with the usual ones.
    further = [dataclasses.replace(test, name=f"{test.name}:{image}", rows=(), image=image)
               for image in found.get("images", "").split() if kernel == "stock" and not RELEASE]
    return [dataclasses.replace(each, name=each.name + mark(kernel)) for each in (test, *others, *further)]


def _cpus(found: dict[str, str], kernel: str) -> int:
    """A second processor makes all that runs on the first one half as slow again, emulated: processors wait for each other. So a test has
    it where it is about what happens at the same time, and on kernels that look for that.
    """
    return int(found.get("cpus", 1)) if kernel == "stock" else MOST_CPUS


def mark(kernel: str) -> str:
    """The end of the names of what is about a kernel."""
    return "" if kernel == "stock" else f"%{kernel}"


def _runs_on(found: dict[str, str], kernel: str, scope: str) -> bool:
    """A test runs on the kernels that it names, or on the stock one; and what runs there, on any that is asked for."""
    if "long" in found.get("when", "") and scope != LONG:
        return False
    named = _kernels(found)
    if scope != CI:
        named += found.get("kernels long", "").split()
    if scope == CI or scope == LONG and kernel in ON_DEMAND:
        return kernel in named
    return kernel in named or "stock" in named


def _kernels(found: dict[str, str]) -> list[str]:
    """Those that a test names."""
    return found.get("kernels", "stock").split()


def _mixes(found: dict[str, str], needs: set[str], kernel: str, scope: str) -> list[str]:
    """The mixes, by name, that a test runs in besides the default one."""
    wish = [USUAL if word == "all" else word for word in found.get("mixes", "").split()]
    if not wish or kernel != "stock" and (scope == CI or kernel in ON_DEMAND):
        return []
    if kernel != "stock":
        wish = list(SINGLE)
    elif scope == LONG:
        wish = list(MIXES)
    elif wish == ["long"]:
        wish = []
    return [name for name in wish if needs <= set(MIXES[name])]


def all_tests(kernel: str, scope: str, *, one_mix: bool = False) -> list[Test]:
    """Every test of the repository that runs on a kernel, in the order in which they run.

    With `one_mix` each guest test is there once, for a mix that somebody chose.
    """
    scripts = [t for path in _executables(TESTING / "selftests", "*/*.sh") for t in _guest_tests(path, kernel, scope)]
    if one_mix:
        chosen = {(test.path, test.image): dataclasses.replace(test, name=re.sub("@[^%]*", "", test.name), mix=None)
                  for test in scripts if test.kind == "guest"}
        scripts = [*chosen.values(), *(test for test in scripts if test.kind == "wire")]
    # What runs in the same mix and guest stands together: it shares a boot. What makes the kernel complain would end it.
    order = [None, *MIXES.values()]
    scripts.sort(key=lambda test: (test.kind, order.index(test.mix), test.image, test.packages, test.cpus, bool(test.provokes)))
    return (_stock_first() if kernel == "stock" else _own_first(kernel) if scripts else []) + scripts


def other_releases() -> list[Test]:
    """The smoke choice on those of the other kernels of Debian on which CI runs it; none where another one than the usual is tested."""
    return [Test(f"release/{other.name}", "release", REPO / "packaging/kernels", timeout=2400)
            for other in releases()[1:] if other.ci == CI_SMOKE and not RELEASE]


def _own_first(kernel: str) -> list[Test]:
    """What comes first on a kernel of our own configuration."""
    return [Test(f"build/{name}%{kernel}", "build", REPO / "Makefile", timeout=2400) for name in ("kernel", "modules")]


def _stock_first() -> list[Test]:
    """What needs no guest."""
    kernel_free = ("hw/rxe/roce", "ibcm/protocol", "rdmacm/cm_rules")
    crates = [*(REPO / crate / "Cargo.toml" for crate in kernel_free), *sorted((TESTING / "host").glob("**/Cargo.toml"))]
    tests = [_crate(manifest) for manifest in crates if manifest.exists()]
    tests += [Test(f"build/{name}", "build", REPO / "Makefile", timeout=1200)
              for name in ("modules", "clippy", "rustfmt")]
    for path in _executables(TESTING / "static", "*"):
        text = path.read_text()
        tests.append(Test(f"static/{path.stem}", "static", path, tuple(rows_of(text)),
                          timeout=int(headers(text).get("timeout", 300)), smoke="smoke" in headers(text)))
    return tests


@dataclasses.dataclass(frozen=True)
class Rows:
    """The feature list: tools/testing/rows.tsv."""

    groups: dict[str, str]
    priority: dict[str, str]
    # By group.
    modules: dict[str, frozenset[str]]

    def modules_of(self, row: str) -> frozenset[str]:
        """The modules that a row is about: it is proved with all of them ours."""
        return self.modules[row.split(".")[0]]


def read_rows() -> Rows:
    groups, priority, modules = {}, {}, {}
    for line in (TESTING / "rows.tsv").read_text().splitlines():
        if line.startswith("# group "):
            number, title, about = line.removeprefix("# group ").split("\t")
            groups[number], modules[number] = title, frozenset(about.split())
        elif not line.startswith("#"):
            row, prio, _ = line.split("\t")
            priority[row] = prio
    return Rows(groups, priority, modules)
