# SPDX-License-Identifier: GPL-2.0
"""User Mode Linux: the kernel is a program, at the processor's own speed.

It has the same root and initramfs as a virtual machine (what it writes to the root goes to a file of its own, in
memory), a serial line for commands and two processors. It has no network but the ones inside it.
"""
import os
import pathlib
import re
import socket
import time

from .environment import REPO, paths
from .guest import BOOT_SECONDS, Guest, GuestError

# Its modules are reached by 32-bit relocations, which sets a limit.
MEMORY = "1G"
# Where its memory and the changes to its root are.
SCRATCH = "/dev/shm"
# Consistency checks of slabs. Without them SLUB has arrays of free objects, in which a pointer stays when its object is allocated:
# kmemleak would take a lost object for one that is in use.
SLAB_DEBUG = "slab_debug=F"
# What the guest's init says once it listens; before that the line would echo.
READY = b"\n@ready\n"


def _frequency() -> list[str]:
    """This processor's, for the guest."""
    found = re.search(r"^cpu MHz\s*: ([0-9.]+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return [f"ferroband.mhz={found[1]}"] if found else []


class Uml(Guest):
    """A guest that is a program."""

    def __init__(self, initramfs: pathlib.Path, logs: pathlib.Path, *, name: str = "guest", cpus: int = 2,
                 memory: str = "", host: str = "", networks: list[str] | None = None,
                 interactive: bool = False, count: bool = False, root: pathlib.Path | None = None, watched: bool = False):
        """Starts it; `memory` is at most MEMORY, which it is by default; `root` is the file system if it is not the usual one.
        KASAN looks at all objects, `watched` or not."""
        if host or networks or count:
            raise GuestError("User Mode Linux runs alone and counts no instructions: take another kernel for that")
        super().__init__(logs, name, scratch=SCRATCH if os.access(SCRATCH, os.W_OK) else None)
        self._line, theirs = socket.socketpair()
        command = [
            str(REPO / "tools/in-root"), str(paths().image), f"mem={memory or MEMORY}", f"ncpus={cpus}", "seccomp=on",
            f"initrd={initramfs}", f"ubd0ct={self.directory}/root.cow,{root or paths().images['']}",
            f"uml_dir={self.directory}", "con=null", f"con0={'fd:0' if interactive else 'null'},fd:1",
            "ssl=null", f"ssl0=fd:{theirs.fileno()}",
            "rdinit=/init", "log_buf_len=8M", "kunit.autorun=0", "kasan_multi_shot", SLAB_DEBUG, "panic=-1", "noreboot", "net.ifnames=0",
            "ferroband.port=ttyS0", *_frequency(),
        ]
        command += ["quiet", "ferroband.shell=tty0"] if interactive else []
        with theirs:
            self.start(command, self.console, interactive=interactive, pass_fds=[theirs.fileno()])

    def connect(self) -> socket.socket:
        deadline = time.monotonic() + BOOT_SECONDS
        said = b""
        self._line.settimeout(1)
        while not said.endswith(READY):
            self.check_alive()
            if time.monotonic() > deadline:
                raise self.gone("it does not get to its init")
            try:
                said += self._line.recv(1)
            except TimeoutError:
                continue
        self._pass_niceness_on()
        return self._line

    def _pass_niceness_on(self) -> None:
        """It is a session of its own by now, and the scheduler weighs sessions against each other (sched(7), autogroup)."""
        autogroup = pathlib.Path(f"/proc/{self._process.pid}/autogroup")
        if autogroup.exists():
            autogroup.write_text(str(os.nice(0)))

    def close(self) -> None:
        super().close()
        self._line.close()
