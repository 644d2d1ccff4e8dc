# SPDX-License-Identifier: GPL-2.0
"""A machine that runs the kernel under test, and commands in it.

Commands travel over a channel (a serial port of some kind) to tools/guest-init; the console goes to a file, or to the
terminal. What the machine is, qemu.py and uml.py know; machine.py takes the one that fits the kernel.
"""
import abc
import base64
import contextlib
import ctypes
import os
import pathlib
import re
import resource
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Callable

from .environment import KERNEL

Stream = Callable[[bytes], None]

BOOT_SECONDS = 120 if KERNEL == "stock" else 600
# How often a machine is started whose emulator dies.
BOOTS = 3
# What the host waits beyond the limit that the guest itself keeps to.
GRACE_SECONDS = 30
# The end of what was read may be the beginning of a marker, which is no longer than this.
MARKER_BYTES = 48


class GuestError(Exception):
    """The guest did not boot, died, or answers no more."""


class EmulatorError(GuestError):
    """A signal has ended the program that emulates the machine: a fault of its own, whatever runs in the guest."""


def booted(start: Callable) -> tuple:
    """Starts a machine, or several, and waits until they are up: what `start` returns, and the seconds of the boot. Raises GuestError.

    It is started again where its emulator dies: while PCI devices are set up, an assertion of QEMU 10.0 fails now and then
    (iotlb_to_section, with more than one emulated processor).
    """
    for attempts_left in reversed(range(BOOTS)):
        machine = start()
        try:
            return machine, machine.wait_for_boot()
        except EmulatorError as error:
            machine.close()
            if not attempts_left:
                raise
            print(f"the emulator died while a guest booted, which is started again: {error}", file=sys.stderr)
        except BaseException:
            machine.close()
            raise
    raise AssertionError


def die_with_parent() -> None:
    """In the child: be killed when this tool ends, however that happens; leave no core."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Guest(abc.ABC):
    """One running guest; a context manager that ends it."""

    # Whether its program is not the kernel itself.
    is_emulated = False

    def __init__(self, logs: pathlib.Path, name: str, scratch: str | None = None):
        """Does what comes before `start`. `scratch` is where the guest's own directory is made (default: TMPDIR)."""
        logs.mkdir(parents=True, exist_ok=True)
        self.console = logs / f"{name}-console.log"
        self._directory = tempfile.TemporaryDirectory(prefix="ferroband-vm.", dir=scratch)
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen | None = None

    @property
    def directory(self) -> str:
        """A directory that lives as long as the guest, its TMPDIR."""
        return self._directory.name

    def start(self, command: list[str], log: pathlib.Path, *, interactive: bool, **options) -> None:
        """Starts the program that the guest runs in; what it prints goes to `log`, or to the terminal."""
        with open(log, "wb") as output:
            self._process = subprocess.Popen(command, env={**os.environ, "TMPDIR": self.directory},
                                             stdin=None if interactive else subprocess.DEVNULL,
                                             stdout=None if interactive else output, stderr=output,
                                             preexec_fn=die_with_parent, **options)

    @abc.abstractmethod
    def connect(self) -> socket.socket:
        """The channel for commands, once there is one. Raises GuestError."""

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the machine."""
        if self._process:
            self._process.kill()
            self._process.wait()
        if self._connection:
            self._connection.close()
        self._directory.cleanup()

    def wait(self) -> int:
        """Waits until the machine ends by itself; the exit status of its program."""
        return self._process.wait()

    def check_alive(self) -> None:
        """Raises GuestError when the machine has ended."""
        if self._process.poll() is not None:
            raise self.gone(f"it ended, with status {self._process.returncode}")

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
        connection = self._connection = self._connection or self.connect()
        encoded = base64.b64encode(command.encode()).decode()
        try:
            connection.sendall(f"{nonce} {int(timeout)} {encoded}\n".encode())
            return self._answer(connection, nonce, time.monotonic() + timeout + GRACE_SECONDS, stream)
        except OSError as error:
            raise self.gone(f"the channel to it broke: {error}") from error

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
                raise self.gone("it answers no more")
            connection.settimeout(1)
            with contextlib.suppress(TimeoutError):
                data = connection.recv(65536)
                if not data:
                    raise self.gone("it ended")
                output += data

    def gone(self, why: str) -> GuestError:
        """What to raise when there is no use in going on."""
        # Its channel may end a moment before it does.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        died = self.is_emulated and (self._process.returncode or 0) < 0
        return (EmulatorError if died else GuestError)(f"the guest is lost: {why}. End of its console ({self.console}):\n{self.console_tail()}")

    def console_tail(self, lines: int = 40) -> str:
        """The last lines of the console."""
        if not self.console.exists():
            return ""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:])


def to_stdout(data: bytes) -> None:
    """A stream for Guest.run: shows what comes."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
