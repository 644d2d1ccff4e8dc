# SPDX-License-Identifier: GPL-2.0
"""The machine that the kernel under test wants."""
import pathlib

from .environment import KERNEL
from .guest import Guest
from .qemu import Qemu, accelerator
from .uml import Uml


def machine(initramfs: pathlib.Path, logs: pathlib.Path, **options) -> Guest:
    """Starts it; options are those of Qemu. Raises GuestError for what a machine of the kind cannot do."""
    return (Uml if KERNEL == "uml" else Qemu)(initramfs, logs, **options)


def kind() -> str:
    """What it runs in, for people."""
    return "as a program" if KERNEL == "uml" else accelerator()[1]
