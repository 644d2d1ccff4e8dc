# SPDX-License-Identifier: GPL-2.0
"""Compiles a Rust file as Kbuild compiles a module's: against the crates that were built."""
import os
import pathlib
import re
import shlex
import subprocess

REPO = pathlib.Path(__file__).resolve().parents[3]
CRATES = ("rdma_bindings", "kernel_ext", "rdma", "rdma_cm", "rdma_user_cm", "rdma_uverbs")


def modules() -> pathlib.Path:
    """Where Kbuild put what it made."""
    return pathlib.Path(os.environ.get("MODULES", REPO))


def is_built(crate: str) -> bool:
    """Whether the build has made a crate of ours."""
    return (modules() / f"rust/lib{crate}.rmeta").exists()


def compile_rust(source: pathlib.Path, directory: pathlib.Path, cfgs: list[str] = []) -> subprocess.CompletedProcess[str]:
    """Compiles `source` into `directory`, with further options of the kernel's configuration; the compiler's messages are in `stderr`.

    Kbuild keeps the command of each object: this is the source's own, or that of a shared crate, with another source and other
    crates.
    """
    own = modules() / source.relative_to(REPO).with_name(f".{source.stem}.o.cmd") if source.is_relative_to(REPO) else None
    kept = (own if own and own.exists() else modules() / "rust/kernel_ext/.kernel_ext.o.cmd").read_text()
    words = shlex.split(re.match(r"savedcmd_\S+ := (.*)", kept)[1])
    # As the kernel's Makefile says, which uses features of the compiler that are not stable.
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1")
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    environment["RDMA_OBJ"] = str(modules())
    words = [word for word in words if not word.startswith("--emit=") and not word.endswith(".rs")]
    words[words.index("--out-dir") + 1] = str(directory)
    for crate in CRATES:
        if is_built(crate):
            words += ["--extern", crate]
    for cfg in cfgs:
        words += ["--cfg", cfg]
    words += ["--emit=metadata,obj", "--crate-name", source.stem, str(source)]
    return subprocess.run(words, cwd=modules(), env=environment, capture_output=True, text=True, check=False)
