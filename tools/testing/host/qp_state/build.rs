// SPDX-License-Identifier: GPL-2.0

//! Takes the C kernel's table, the function over it and its enumerations out of the kernel's source, and compiles them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The kernel's source: `KDIR`, or what `tools/provision` has unpacked.
fn kernel() -> PathBuf {
    println!("cargo:rerun-if-env-changed=KDIR");
    if let Some(dir) = env::var_os("KDIR") {
        return dir.into();
    }
    let cache = env::var_os("FERROBAND_CACHE")
        .map(PathBuf::from)
        .unwrap_or_else(|| {
            PathBuf::from(env::var_os("HOME").expect("a home")).join(".cache/ferroband")
        });
    let entries = fs::read_dir(&cache)
        .expect("the cache of tools/provision")
        .flatten();
    let trees = entries.map(|entry| entry.path().join("tree"));
    let with_source = trees.filter(|tree| tree.join("drivers/infiniband/core/verbs.c").exists());
    with_source
        .max()
        .expect("a kernel's source: run tools/provision")
}

fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands from `begin` to `end`, both included.
fn cut<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let from = text.find(begin).unwrap_or_else(|| panic!("no {begin:?}"));
    let rest = &text[from..];
    let to = rest
        .find(end)
        .unwrap_or_else(|| panic!("no {end:?} after {begin:?}"));
    &rest[..to + end.len()]
}

fn run(command: &mut Command) {
    let status = command.status().expect("a compiler");
    assert!(status.success(), "{command:?}: {status}");
}

fn main() {
    let kernel = kernel();
    let verbs_h = read(&kernel.join("include/rdma/ib_verbs.h"));
    let user_h = read(&kernel.join("include/uapi/rdma/ib_user_ioctl_verbs.h"));
    let verbs_c = read(&kernel.join("drivers/infiniband/core/verbs.c"));
    let table = "static const struct {\n\tint\t\t\tvalid;";
    let source = [
        "#include <stdbool.h>\n#define GENMASK(h, l) ((2u << (h)) - (1u << (l)))\n",
        cut(&user_h, "enum ib_uverbs_qp_type {", "};"),
        cut(&verbs_h, "enum ib_qp_type {", "};"),
        cut(&verbs_h, "enum ib_qp_attr_mask {", "};"),
        cut(&verbs_h, "enum ib_qp_state {", "};"),
        cut(&verbs_c, table, "\n};"),
        "#define ib_modify_qp_is_ok stock_is_ok",
        cut(&verbs_c, "bool ib_modify_qp_is_ok(", "\n}"),
    ];
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let (file, object, library) = (
        out.join("stock.c"),
        out.join("stock.o"),
        out.join("libstock.a"),
    );
    fs::write(&file, source.join("\n")).expect("a place to write");
    run(Command::new("cc")
        .args(["-O2", "-c", "-o"])
        .arg(&object)
        .arg(&file));
    let _ = fs::remove_file(&library);
    run(Command::new("ar").arg("crs").arg(&library).arg(&object));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=stock");
}
