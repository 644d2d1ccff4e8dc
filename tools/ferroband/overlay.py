# SPDX-License-Identifier: GPL-2.0
"""What a guest gets beside its root: an initramfs, our modules and the test programs.

The root image is never changed. The initramfs carries an overlay that is copied onto the root (a throw-away snapshot)
before the guest's init starts: our modules under /lib/modules/RELEASE/updates with their modules.dep, and the test
scripts under /ferroband.
"""
import fcntl
import functools
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

from .environment import KERNEL, OUT, REPO, in_root, paths
from .relocations import leave_out_frame_addresses

# The examples of the manual "RDMA Aware Networks Programming" (apm.c, mc.c, rc.c, srq.c): not ours to give away.
MANUAL = pathlib.Path(os.environ.get("MANUAL") or REPO.parent / "shared/reference/seed-programs")

ROOT_MODULES = ("virtio_blk", "ext4")

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t devtmpfs none /dev
for module in /modules/*.ko; do /bin/busybox insmod $module; done
disk=/dev/vda; [ -e $disk ] || disk=/dev/ubda
/bin/busybox mount -t ext4 $disk /root
/bin/busybox cp -a /overlay/. /root/
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /ferroband/init
"""


class OverlayError(Exception):
    """The modules that were asked for are not there."""


def built_modules(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    """The modules that the build left in `directory`, by name; empty before a build."""
    order = directory / "modules.order"
    if not order.exists():
        return {}
    files = [directory / pathlib.Path(line).with_suffix(".ko") for line in order.read_text().split()]
    return {file.stem.replace("-", "_"): file for file in files}


@functools.cache
def stock_names() -> set[str]:
    """Names of the stock modules that the guest's root has."""
    return {file.stem.replace("-", "_") for file in (paths().stock_modules / "kernel").rglob("*.ko")}


def default_mix(directory: pathlib.Path) -> list[str]:
    """Which of the modules in `directory` stand in for stock ones when nobody says it: all that can."""
    return [name for name in built_modules(directory) if name in stock_names()]


def choose(directory: pathlib.Path, mix: list[str] | None) -> list[pathlib.Path]:
    """The modules to install: those of `mix` (None: default_mix), and all that replace no stock module (test modules).

    Raises OverlayError when `mix` names a module that was not built.
    """
    built = built_modules(directory)
    missing = [name for name in mix or () if name not in built]
    if missing:
        raise OverlayError(f"MIX names modules that are not built: {' '.join(missing)} (built: {' '.join(built)})")
    stock, wanted = stock_names(), default_mix(directory) if mix is None else mix
    return [file for name, file in built.items() if name in wanted or name not in stock]


def install_modules(files: list[pathlib.Path], top: pathlib.Path) -> None:
    """Puts stripped modules and the indices of modprobe under `top`/usr/lib/modules."""
    release, stock = paths().release, paths().stock_modules
    target = top / "usr/lib/modules" / release
    (target / "updates").mkdir(parents=True)
    (top / "lib").symlink_to("usr/lib")
    for file in files:
        shutil.copy(file, target / "updates")
    if paths().left_out_modules:
        shutil.copytree(paths().left_out_modules, target / "extra")
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(stock / name, target)
    (target / "kernel").symlink_to(stock / "kernel")
    in_root("sh", "-euc", 'cd "$1"; shift; ! ls updates/*.ko > /dev/null 2>&1 || strip -g updates/*.ko; depmod "$@"',
            "sh", str(target), "-b", str(top), release, check=True)
    # In the guest both are there already (the modules, of the stock kernel), and /lib would be in the way of the copy.
    (target / "kernel").unlink()
    if stock.parent != paths().guest:
        shutil.copytree(stock / "kernel", target / "kernel")
    if KERNEL == "uml":
        for module in target.rglob("*.ko"):
            leave_out_frame_addresses(module)
    (top / "lib").unlink()


def install_tests(top: pathlib.Path) -> None:
    """Puts the guest's init, the test scripts and the programs in C beside them under `top`/ferroband."""
    target = top / "ferroband"
    target.mkdir()
    shutil.copy(REPO / "tools/guest-init", target / "init")
    shutil.copy(REPO / "tools/guest-shellrc", target / "shellrc")
    shutil.copy(REPO / "tools/demo.sh", target)
    for name in ("ferroband", "kernels"):
        shutil.copy(REPO / "packaging" / name, target)
    # By module in the repository, in one folder in the guest: they use each other.
    selftests = target / "selftests"
    for area in sorted((REPO / "tools/testing/selftests").glob("*/")):
        shutil.copytree(area, selftests, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for name in ("rdma", "kselftest", "net/lib/py", "net/rds"):  # the kernel's own, as they are
        shutil.copytree(paths().kdir / "tools/testing/selftests" / name, target / "kernel-selftests" / name)
    for program in programs():
        shutil.copy(program, selftests)


@functools.cache
def programs() -> list[pathlib.Path]:
    """The programs of the tests that are in C, compiled where a source has changed, for the libraries of the guest's suite."""
    target = OUT / f"programs-{paths().suite}"
    target.mkdir(parents=True, exist_ok=True)
    with open(target / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        examples = _copy_of_manual(OUT / "manual")
        in_root("make", "-s", f"-j{os.cpu_count()}", "-C", str(REPO / "tools/testing/selftests"), f"OUTPUT={target}",
                f"MANUAL={OUT / 'manual'}", check=True)
    sources = (source for pattern in ("selftests/*/*.c", "bench/*.c") for source in (REPO / "tools/testing").glob(pattern))
    names = [source.stem for source in examples]
    # One of them is built a second time, for two ports.
    names += [f"{name}_ports" for name in names if name == "apm"]
    return [target / source.stem for source in sorted(sources)] + [target / f"manual_{name}" for name in names]


def _copy_of_manual(target: pathlib.Path) -> list[pathlib.Path]:
    """The manual's examples, where the build root sees them. None where nobody has them."""
    target.mkdir(exist_ok=True)
    sources = [source for name in ("apm", "mc", "rc", "srq") if (source := MANUAL / f"{name}.c").exists()]
    for source in sources:
        shutil.copy2(source, target)
    return sources


def module_closure(names: tuple[str, ...]) -> list[pathlib.Path]:
    """Files of stock modules and of what they need, in the order of loading."""
    stock = paths().stock_modules
    needs = {}
    for line in (stock / "modules.dep").read_text().splitlines():
        file, _, deps = line.partition(":")
        needs[pathlib.Path(file).stem] = [file, *deps.split()]
    ordered: list[str] = []
    for name in names:
        # modules.dep lists the nearest dependency first.
        ordered += [file for file in reversed(needs.get(name, [])) if file not in ordered]
    return [stock / file for file in ordered]


def make_packages(modules: pathlib.Path) -> list[pathlib.Path]:
    """Our Debian packages of the modules in `modules`, made anew. Raises OverlayError with what is wrong with them."""
    done = subprocess.run([REPO / "tools/deb", "--modules", modules], capture_output=True, text=True)
    if done.returncode != 0:
        raise OverlayError(f"the packages are not made: {done.stdout}{done.stderr}")
    return sorted((OUT / "deb").glob("*.deb"))


def make_initramfs(target: pathlib.Path, mix: list[str] | None, modules: pathlib.Path, packages: tuple[pathlib.Path, ...] = ()) -> None:
    """Writes the initramfs with everything in it to `target`; `packages` come into a folder /ferroband/packages."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ferroband.") as name:
        top = pathlib.Path(name)
        for directory in ("bin", "modules", "overlay"):
            (top / directory).mkdir()
        in_root("cp", "/bin/busybox", str(top / "bin/busybox"), check=True)
        (top / "init").write_text(INIT)
        (top / "init").chmod(0o755)
        for index, file in enumerate(module_closure(ROOT_MODULES)):
            shutil.copy(file, top / "modules" / f"{index:02}-{file.name}")
        install_modules(choose(modules, mix), top / "overlay")
        install_tests(top / "overlay")
        for package in packages:
            (top / "overlay/ferroband/packages").mkdir(exist_ok=True)
            shutil.copy(package, top / "overlay/ferroband/packages")
        write_cpio(target, top)


def write_cpio(target: pathlib.Path, top: pathlib.Path) -> None:
    """Packs a directory as a cpio archive of the "newc" kind (Documentation/driver-api/early-userspace)."""
    with open(target, "wb") as out:
        entries = sorted(path for path in top.rglob("*"))
        for inode, path in enumerate(entries, 1):
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                data = os.readlink(path).encode()
            else:
                data = path.read_bytes() if path.is_file() else b""
            _cpio_entry(out, str(path.relative_to(top)), info.st_mode, data, inode)
        _cpio_entry(out, "TRAILER!!!", 0, b"", 0)


def _cpio_entry(out, name: str, mode: int, data: bytes, inode: int) -> None:
    encoded = name.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + encoded)
    out.write(b"\0" * (-(110 + len(encoded)) % 4))
    out.write(data + b"\0" * (-len(data) % 4))
