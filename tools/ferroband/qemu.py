# SPDX-License-Identifier: GPL-2.0
"""A virtual machine of QEMU, and two that are joined by networks.

virtme-ng would fit most of this, but Debian's kernel lacks what it wants built in (it boots from a 9p or virtiofs root
that shows the host's own files, while we need Debian 13's user space whatever the host has), and it knows no pairs of
guests; what remains is the few lines of QEMU command below.
"""
import contextlib
import os
import pathlib
import socket
import subprocess
import tempfile
import time

from .environment import KERNEL, REPO, paths
from .guest import BOOT_SECONDS, Guest, booted, die_with_parent

QEMU = [str(REPO / "tools/in-root"), "qemu-system-x86_64"]

# On a loaded host the old timer (PIT) can make a slow kernel take its clock for one of a fifth of the frequency: its seconds,
# and all time limits, are then as much shorter. Without a PIT it measures by the HPET.
MACHINE = "q35" if KERNEL == "stock" else "q35,pit=off"

# For tests: who made and freed a small object that is freed twice, or written to after that. Debian's kernel shares these caches among
# all code, so what a fault of one module does is seen in another one.
SLAB_DEBUG = " slab_debug=FPU,kmalloc-32,kmalloc-64,kmalloc-96,kmalloc-128"

# Emulated, copying by "rep movs" and clearing by "rep stos" take an instruction a byte.
CPU = "max,-erms,-fsrm,-fsrs,-fzrm"
COUNTING = ["-accel", "tcg,thread=single,tb-size=512", "-cpu", CPU, "-icount", "shift=0,sleep=off"]


def accelerator() -> list[str]:
    """QEMU's options for KVM where it really runs this kernel, for emulation otherwise; probed once per host boot."""
    # A fifth level of page tables makes each miss of the TLB slower.
    emulated = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", f"{CPU},-la57"]
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return emulated
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = paths().cache / "kvm-works"
    recorded = known.read_text().split() if known.exists() else []
    if recorded[:1] != [boot]:
        recorded = [boot, "yes" if _kvm_boots() else "no"]
        known.write_text(" ".join(recorded))
    return ["-accel", "kvm", "-cpu", "host"] if recorded[1] == "yes" else emulated


def _kvm_boots() -> bool:
    """Some nested hosts have /dev/kvm and stop the guest with "emulation failure": see if the kernel gets anywhere."""
    command = [*QEMU, "-nodefaults", "-display", "none", "-no-reboot", "-accel", "kvm", "-cpu", "host",
               "-m", "512M", "-serial", "stdio", "-kernel", str(paths().image),
               "-append", "console=ttyS0 panic=-1"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=15, stdin=subprocess.DEVNULL,
                              preexec_fn=die_with_parent)
        printed = done.stdout
    except subprocess.TimeoutExpired as expired:
        printed = expired.stdout or b""
    # Without a root the kernel ends in a panic that names the root: then it has run to the end of its start.
    return b"Unable to mount root" in printed


class Qemu(Guest):
    """A guest with a virtio-serial port for commands."""

    is_emulated = True

    def __init__(self, initramfs: pathlib.Path, logs: pathlib.Path, *, name: str = "guest", cpus: int = 2,
                 memory: str = "2G", host: str = "", networks: list[str] | None = None,
                 interactive: bool = False, count: bool = False, root: pathlib.Path | None = None, watched: bool = False):
        """Starts QEMU. `host` is A or B of a pair, `networks` are paths of sockets, where A waits for B, `root` is the file
        system if it is not the usual one; `watched`: the kernel looks at small objects.

        With `count` the guest has one CPU, and a nanosecond of its time is an instruction: durations then do not depend
        on what else this machine does.
        """
        super().__init__(logs, name)
        self._socket_path = os.path.join(self.directory, "commands")
        append = "console=ttyS0 panic=-1 net.ifnames=0 rdinit=/init mitigations=off tsc=nowatchdog rcupdate.rcu_cpu_stall_timeout=60"
        # On a busy machine no timer interrupt may come while the kernel looks whether one does.
        append += " no_timer_check"
        # A report of lockdep may be long, and the first must not be lost.
        append += " log_buf_len=8M"
        # The tests in our modules run when kunit.sh says so, not whenever one is loaded.
        append += " kunit.autorun=0"
        # The debug kernel looks at all objects.
        append += SLAB_DEBUG if watched and KERNEL != "debug" else ""
        append += f" ferroband.host={host}" if host else ""
        append += " quiet ferroband.shell=ttyS0" if interactive else ""
        serial = ["-serial", "mon:stdio"] if interactive else ["-serial", f"file:{self.console}"]
        command = [
            *QEMU, "-machine", MACHINE, *(COUNTING if count else accelerator()), "-smp", "1" if count else str(cpus), "-m", memory,
            "-nodefaults", "-display", "none", "-no-reboot", *serial,
            "-kernel", str(paths().image), "-initrd", str(initramfs), "-append", append,
            "-drive", f"file={root or paths().images['']},format=raw,if=none,id=root,snapshot=on,cache=unsafe,"
                      "file.locking=off",
            "-device", "virtio-blk-pci,drive=root", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=commands,path={self._socket_path},server=on,wait=off",
            "-device", "virtserialport,chardev=commands,name=ferroband",
        ]
        side = "server=on" if host == "A" else "server=off,reconnect-ms=200"
        for index, path in enumerate(networks or ()):
            mac = f"52:54:00:00:{index:02x}:{ord(host):02x}"
            command += [
                # A stream has back-pressure: it loses no packet, unlike QEMU's datagram sockets.
                "-netdev", f"stream,id=n{index},{side},addr.type=unix,addr.path={path}",
                "-device", f"virtio-net-pci,netdev=n{index},mac={mac},host_mtu=4200",
            ]
        # TMPDIR is for the snapshot: what the guest writes to its root.
        self.start(command, logs / f"{name}-qemu.log", interactive=interactive)

    def connect(self) -> socket.socket:
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            self.check_alive()
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self._socket_path)
            except OSError:
                connection.close()
                time.sleep(0.05)
                continue
            return connection
        raise self.gone("QEMU offers no channel")


class Both:
    """Two guests A and B that were started at once."""

    def __init__(self, a: Qemu, b: Qemu):
        self.a, self.b = a, b

    def wait_for_boot(self) -> float:
        """Waits for both; the seconds that it took. Raises GuestError."""
        began = time.monotonic()
        self.a.wait_for_boot()
        self.b.wait_for_boot()
        return time.monotonic() - began

    def close(self) -> None:
        """Ends both."""
        self.b.close()
        self.a.close()


@contextlib.contextmanager
def pair(initramfs_a: pathlib.Path, initramfs_b: pathlib.Path, logs: pathlib.Path, **options):
    """Two guests A and B, joined by two networks (eth0 for the tests, eth1 for the commands of one to the other)."""
    with tempfile.TemporaryDirectory(prefix="ferroband-pair.") as directory:
        networks = [pathlib.Path(directory, name) for name in ("eth0", "eth1")]

        def start() -> Both:
            for network in networks:
                network.unlink(missing_ok=True)
            paths_of_networks = [str(network) for network in networks]
            return Both(Qemu(initramfs_a, logs, name="guest-a", host="A", networks=paths_of_networks, **options),
                        Qemu(initramfs_b, logs, name="guest-b", host="B", networks=paths_of_networks, **options))

        both, _ = booted(start)
        try:
            yield both.a, both.b
        finally:
            both.close()
