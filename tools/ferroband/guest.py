# SPDX-License-Identifier: GPL-2.0
"""A virtual machine with the stock kernel, and commands in it.

virtme-ng would fit most of this, but Debian's kernel lacks what it wants built in (it boots from a 9p or virtiofs root
that shows the host's own files, while we need Debian 13's user space whatever the host has), and it knows no pairs of
guests; what remains is the few lines of QEMU command below.

Commands travel over a virtio-serial port to tools/guest-init; the console goes to a file, or to the terminal.
"""
import base64
import contextlib
import ctypes
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Callable

from .environment import REPO, paths

Stream = Callable[[bytes], None]

QEMU = [str(REPO / "tools/in-root"), "qemu-system-x86_64"]

# Copies by "rep movs" would count as one instruction a byte.
COUNTING = ["-accel", "tcg,thread=single,tb-size=512", "-cpu", "max,-erms,-fsrm", "-icount", "shift=0,sleep=off"]

BOOT_SECONDS = 120
# What the host waits beyond the limit that the guest itself keeps to.
GRACE_SECONDS = 30
# The end of what was read may be the beginning of a marker, which is no longer than this.
MARKER_BYTES = 48


class GuestError(Exception):
    """The guest did not boot, died, or answers no more."""


def _die_with_parent() -> None:
    """In the child: be killed when this tool ends, however that happens."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def accelerator() -> list[str]:
    """QEMU's options for KVM where it really runs this kernel, for emulation otherwise; probed once per host boot."""
    emulated = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max"]
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
                              preexec_fn=_die_with_parent)
        printed = done.stdout
    except subprocess.TimeoutExpired as expired:
        printed = expired.stdout or b""
    # Without a root the kernel ends in a panic that names the root: then it has run to the end of its start.
    return b"Unable to mount root" in printed


class Guest:
    """One running virtual machine; a context manager that ends it."""

    def __init__(self, initramfs: pathlib.Path, logs: pathlib.Path, *, name: str = "guest", cpus: int = 2,
                 memory: str = "2G", host: str = "", networks: list[str] | None = None,
                 interactive: bool = False, count: bool = False):
        """Starts QEMU. `host` is A or B of a pair, `networks` are paths of sockets, where A waits for B.

        With `count` the guest has one CPU, and a nanosecond of its time is an instruction: durations then do not depend
        on what else this machine does.
        """
        logs.mkdir(parents=True, exist_ok=True)
        self.console = logs / f"{name}-console.log"
        self._directory = tempfile.TemporaryDirectory(prefix="ferroband-vm.")
        self._socket_path = os.path.join(self._directory.name, "commands")
        self._socket: socket.socket | None = None
        self._pending = b""
        append = "console=ttyS0 panic=-1 net.ifnames=0 rdinit=/init mitigations=off tsc=nowatchdog rcupdate.rcu_cpu_stall_timeout=60"
        append += f" ferroband.host={host}" if host else ""
        append += " quiet ferroband.shell" if interactive else ""
        serial = ["-serial", "mon:stdio"] if interactive else ["-serial", f"file:{self.console}"]
        command = [
            *QEMU, "-machine", "q35", *(COUNTING if count else accelerator()), "-smp", "1" if count else str(cpus), "-m", memory,
            "-nodefaults", "-display", "none", "-no-reboot", *serial,
            "-kernel", str(paths().image), "-initrd", str(initramfs), "-append", append,
            "-drive", f"file={paths().guest / 'root.ext4'},format=raw,if=none,id=root,snapshot=on,cache=unsafe",
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
        self._errors = open(logs / f"{name}-qemu.log", "wb")
        # TMPDIR is for the snapshot: what the guest writes to its root.
        self._qemu = subprocess.Popen(command, env={**os.environ, "TMPDIR": self._directory.name},
                                      stdin=None if interactive else subprocess.DEVNULL,
                                      stdout=None if interactive else self._errors, stderr=self._errors,
                                      preexec_fn=_die_with_parent)

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the machine."""
        if self._qemu.poll() is None:
            self._qemu.kill()
        self._qemu.wait()
        if self._socket:
            self._socket.close()
        self._errors.close()
        self._directory.cleanup()

    def wait(self) -> int:
        """Waits until the machine ends by itself; QEMU's exit status."""
        return self._qemu.wait()

    def wait_for_boot(self) -> float:
        """Waits until commands are answered; the seconds that it took. Raises GuestError."""
        began = time.monotonic()
        status, _ = self.run("true", timeout=BOOT_SECONDS)
        if status != 0:
            raise GuestError(f"the guest's first command ended with {status}")
        return time.monotonic() - began

    def run(self, command: str, *, timeout: float, stream: Stream | None = None) -> tuple[int, bytes]:
        """Runs a bash command in the guest: its exit status (124: it took longer than `timeout` seconds) and output.

        `stream` is called with pieces of output as they come. Raises GuestError when the guest is no more.
        """
        nonce = secrets.token_hex(8)
        connection = self._connect(timeout=BOOT_SECONDS)
        encoded = base64.b64encode(command.encode()).decode()
        try:
            connection.sendall(f"{nonce} {int(timeout)} {encoded}\n".encode())
            return self._answer(connection, nonce, time.monotonic() + timeout + GRACE_SECONDS, stream)
        except OSError as error:
            raise self._gone(f"the channel to it broke: {error}") from error

    def _answer(self, connection: socket.socket, nonce: str, deadline: float,
                stream: Stream | None) -> tuple[int, bytes]:
        marker = re.compile(rb"\n@%s (\d+)\n" % nonce.encode())
        output, shown = b"", 0
        while True:
            found = marker.search(output, max(0, shown - MARKER_BYTES))
            end = found.start() if found else max(shown, len(output) - MARKER_BYTES)
            if stream and end > shown:
                stream(output[shown:end])
            shown = end
            if found:
                return int(found.group(1)), output[:end]
            if time.monotonic() > deadline:
                raise self._gone("it answers no more")
            connection.settimeout(1)
            with contextlib.suppress(TimeoutError):
                data = connection.recv(65536)
                if not data:
                    raise self._gone("it ended")
                output += data

    def _connect(self, timeout: float) -> socket.socket:
        if self._socket:
            return self._socket
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._qemu.poll() is not None:
                raise self._gone("QEMU did not start")
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self._socket_path)
            except OSError:
                connection.close()
                time.sleep(0.05)
                continue
            self._socket = connection
            return connection
        raise self._gone("QEMU offers no channel")

    def _gone(self, why: str) -> GuestError:
        return GuestError(f"the guest is lost: {why}. End of its console ({self.console}):\n{self.console_tail()}")

    def console_tail(self, lines: int = 40) -> str:
        """The last lines of the console."""
        if not self.console.exists():
            return ""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def pair(initramfs_a: pathlib.Path, initramfs_b: pathlib.Path, logs: pathlib.Path, **options):
    """Two guests A and B, joined by two networks (eth0 for the tests, eth1 for the commands of one to the other)."""
    with tempfile.TemporaryDirectory(prefix="ferroband-pair.") as directory:
        networks = [os.path.join(directory, name) for name in ("eth0", "eth1")]
        with (Guest(initramfs_a, logs, name="guest-a", host="A", networks=networks, **options) as a,
              Guest(initramfs_b, logs, name="guest-b", host="B", networks=networks, **options) as b):
            a.wait_for_boot()
            b.wait_for_boot()
            yield a, b


def to_stdout(data: bytes) -> None:
    """A stream for Guest.run: shows what comes."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
