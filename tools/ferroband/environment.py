# SPDX-License-Identifier: GPL-2.0
"""Where things are, and commands in the build root."""
import dataclasses
import functools
import os
import pathlib
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
OUT = REPO / "out"
# The kernel to build for and to boot: "stock", or one of our own configuration.
KERNEL = os.environ.get("FERROBAND_KERNEL") or "stock"
# The release of Debian's kernel that is "stock"; empty for the usual one.
RELEASE = os.environ.get("FERROBAND_RELEASE", "")
# What tools/provision calls the file systems of guests: by the names that tests have for them, "" for the usual one.
IMAGES = {"": "GUEST", "mpi": "MPI", "rdma-core-65": "RDMA_CORE_65"}


def built() -> pathlib.Path:
    """Where `make modules` leaves the modules when nothing else is said."""
    if RELEASE:
        return OUT / RELEASE
    return REPO if KERNEL == "stock" else OUT / KERNEL


@dataclasses.dataclass(frozen=True)
class Paths:
    """What tools/provision made, for the kernel that FERROBAND_KERNEL in the environment names."""

    cache: pathlib.Path
    # Of Debian, whose programs the build root and the guest have.
    suite: str
    release: str
    # Of the packages that the kernel is from; empty for a kernel of our own configuration.
    kernel_version: str
    kdir: pathlib.Path
    guest: pathlib.Path
    image: pathlib.Path
    stock_modules: pathlib.Path
    left_out_modules: pathlib.Path | None
    vmlinux: pathlib.Path
    # File systems of guests, by the keys of IMAGES.
    images: dict[str, pathlib.Path]


@functools.cache
def paths() -> Paths:
    """Asks tools/provision. Raises SystemExit when nothing was provisioned yet."""
    out = subprocess.run([REPO / "tools/provision", "--paths"], check=True, capture_output=True, text=True).stdout
    values = dict(line.split("=", 1) for line in out.split("\n") if line)
    found = Paths(
        cache=pathlib.Path(values["FERROBAND_CACHE"]),
        suite=values["SUITE"],
        release=values["KERNEL_RELEASE"],
        kernel_version=values.get("KERNEL_VERSION", ""),
        kdir=pathlib.Path(values["KDIR"]),
        guest=pathlib.Path(values["GUEST"]),
        image=pathlib.Path(values["KERNEL_IMAGE"]),
        stock_modules=pathlib.Path(values["KERNEL_MODULES"]),
        left_out_modules=pathlib.Path(values["LEFT_OUT_MODULES"]) if values["LEFT_OUT_MODULES"] else None,
        vmlinux=pathlib.Path(values["VMLINUX"]),
        images={name: pathlib.Path(values[variable]) / "root.ext4" for name, variable in IMAGES.items()},
    )
    if not found.images[""].exists():
        raise SystemExit("nothing is provisioned yet: run tools/provision (or make environment)")
    return found


def image(name: str) -> pathlib.Path:
    """The file system of a guest; one that few tests use is made when it is first asked for. Raises CalledProcessError when that fails."""
    if name:
        # What it says is no output of the program that is run.
        subprocess.run([REPO / "tools/provision", f"--{name}"], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    return paths().images[name]


def in_root(*command: str, env: dict[str, str] | None = None, **kwargs) -> subprocess.CompletedProcess:
    """Runs a command in the build root; keyword arguments are those of subprocess.run."""
    return subprocess.run([REPO / "tools/in-root", *command], env={**os.environ, **(env or {})}, **kwargs)
