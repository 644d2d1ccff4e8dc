#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rust-analyzer.py OUT BUILD_ROOT: completes OUT/rust-project.json, which the kernel's script wrote.

The kernel's script finds crates by a Makefile next to them, and knows of no crates but its own; so ours are added. Its
paths of the standard library are those of the build root, which an editor outside of it finds under BUILD_ROOT.
"""
import json
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
KERNEL = ["core", "kernel", "pin_init"]
# Our library crates, each after those that it uses; Kbuild has the same.
LIBRARIES = {
    "rust/bindings/rdma_bindings.rs": KERNEL,
    "rust/kernel_ext/kernel_ext.rs": [*KERNEL, "rdma_bindings", "rdma_macros"],
    "rust/rdma/rdma.rs": [*KERNEL, "rdma_bindings", "rdma_macros", "kernel_ext"],
    "hw/rxe/roce/roce.rs": ["core"],
    "ibcm/protocol/ib_cm_protocol.rs": ["core"],
    "rdmacm/cm_rules/cm_rules.rs": ["core"],
}
MODULE = [*KERNEL, "kernel_ext", "rdma", "roce"]


class Project:
    """A rust-project.json (rust-analyzer's manual, "Non-Cargo Based Projects")."""

    def __init__(self, out: pathlib.Path, build_root: str):
        self.out = out
        self.build_root = build_root
        self.content = json.loads((out / "rust-project.json").read_text())
        self.crates = self.content["crates"]
        self.index = {crate["display_name"]: number for number, crate in enumerate(self.crates)}
        self.cfg = self.crates[self.index["kernel"]]["cfg"]

    def outside(self, path: str) -> str:
        """A path of the build root, as it is seen from outside."""
        return self.build_root + path if path.startswith("/usr/") else path

    def move_standard_library(self) -> None:
        for crate in self.crates:
            crate["root_module"] = self.outside(crate["root_module"])
        for key in ("sysroot", "sysroot_src"):
            if key in self.content:
                self.content[key] = self.outside(self.content[key])

    def add(self, path: str, deps: list[str], **extra: object) -> None:
        name = pathlib.Path(path).stem
        self.index[name] = len(self.crates)
        self.crates.append({
            "display_name": name,
            "root_module": str(TOP / path),
            "is_workspace_member": True,
            "is_proc_macro": False,
            "deps": [{"crate": self.index[dep], "name": dep} for dep in deps],
            "cfg": self.cfg,
            "edition": "2021",
            "env": {"RUST_MODFILE": "rust-analyzer", "RDMA_OBJ": str(self.out)},
            **extra,
        })

    def module_roots(self) -> list[str]:
        """Roots of the modules' own crates: what their parts have as sources, but for the libraries."""
        roots = []
        for line in (self.out / "modules.order").read_text().split():
            for part in (self.out / line).with_suffix(".mod").read_text().split():
                part = pathlib.Path(part)
                part = part.relative_to(self.out) if part.is_absolute() else part
                root = str(part.with_suffix(".rs"))
                if root not in LIBRARIES and (TOP / root).exists():
                    roots.append(root)
        return roots

    def write(self) -> None:
        (self.out / "rust-project.json").write_text(json.dumps(self.content, indent=4))


def main() -> None:
    project = Project(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
    project.move_standard_library()
    project.add("rust/macros/rdma_macros.rs", ["std", "proc_macro", "proc_macro2", "quote", "syn"], is_proc_macro=True,
                proc_macro_dylib_path=str(project.out / "rust/librdma_macros.so"))
    for path, deps in LIBRARIES.items():
        project.add(path, deps)
    for root in project.module_roots():
        project.add(root, MODULE)
    project.write()


if __name__ == "__main__":
    main()
