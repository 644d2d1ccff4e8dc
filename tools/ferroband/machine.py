# SPDX-License-Identifier: GPL-2.0
"""The machine that the kernel under test wants."""
import pathlib
import subprocess

from .environment import KERNEL, image as image_of
from .guest import Guest, GuestError
from .qemu import Qemu, accelerator
from .uml import Uml


def machine(initramfs: pathlib.Path, logs: pathlib.Path, *, image: str = "", **options) -> Guest:
    """Starts it with the file system `image` (Paths.images); options are those of Qemu.

    Raises GuestError for what a machine of the kind cannot do, and when the file system cannot be made.
    """
    try:
        root = image_of(image)
    except subprocess.CalledProcessError as error:
        raise GuestError(f"there is no file system {image}: {error}") from error
    return (Uml if KERNEL == "uml" else Qemu)(initramfs, logs, root=root, **options)


def kind() -> str:
    """What it runs in, for people."""
    return "as a program" if KERNEL == "uml" else accelerator()[1]
