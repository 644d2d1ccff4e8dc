// SPDX-License-Identifier: GPL-2.0

//! Format of the file `result`.

use kernel::{seq_file::SeqFile, seq_print};

use crate::{
    drive::Report,
    histogram::Summary,
    options::{Limit, Name, Options, ValueEnum, KEYS},
    role::Role,
};

const NS: u64 = 1_000_000_000;
/// Hundredths of a MiB in a KiB and a second in microseconds: 100 / 1024 * 1,000,000.
const CENTI_MIB_PER_KIB_US: u64 = 97_656;

fn name(name: &Name) -> &str {
    let bytes = name.bytes().unwrap_or_default();
    core::str::from_utf8(bytes).unwrap_or_default()
}

/// Operations per second.
fn rate(count: u64, nanoseconds: u64) -> u64 {
    count
        .saturating_mul(NS)
        .checked_div(nanoseconds)
        .unwrap_or(0)
}

/// Hundredths of a MiB per second.
fn throughput(bytes: u64, nanoseconds: u64) -> u64 {
    (bytes >> 10)
        .saturating_mul(CENTI_MIB_PER_KIB_US)
        .checked_div(nanoseconds / 1000)
        .unwrap_or(0)
}

/// Prints a summary of durations.
fn durations(to: &SeqFile, what: &str, summary: &Summary) {
    seq_print!(to, "{what}_count={}\n", summary.count);
    for (which, value) in [
        ("min", summary.min),
        ("median", summary.median),
        ("mean", summary.mean),
        ("p99", summary.p99),
        ("max", summary.max),
    ] {
        seq_print!(to, "{what}_ns_{which}={value}\n");
    }
}

/// Prints an option with its value.
fn key(to: &SeqFile, key: &str, options: &Options) {
    match (key, options.limit) {
        ("client", _) => seq_print!(to, "client={}\n", name(&options.client)),
        ("server", _) => seq_print!(to, "server={}\n", name(&options.server)),
        ("client_gid", _) => seq_print!(to, "client_gid={}\n", options.client_gid),
        ("server_gid", _) => seq_print!(to, "server_gid={}\n", options.server_gid),
        ("op", _) => seq_print!(to, "op={}\n", options.op.name()),
        ("pattern", _) => seq_print!(to, "pattern={}\n", options.pattern.name()),
        ("size", _) => seq_print!(to, "size={}\n", options.size),
        ("depth", _) => seq_print!(to, "depth={}\n", options.depth),
        ("qps", _) => seq_print!(to, "qps={}\n", options.qps),
        ("iterations", Limit::Iterations(count)) => seq_print!(to, "iterations={count}\n"),
        ("seconds", Limit::Seconds(count)) => seq_print!(to, "seconds={count}\n"),
        ("post", _) => seq_print!(to, "post={}\n", options.post.name()),
        ("poll", _) => seq_print!(to, "poll={}\n", options.poll.name()),
        ("mtu", _) => seq_print!(to, "mtu={}\n", options.mtu),
        ("verify", _) => seq_print!(to, "verify={}\n", u8::from(options.verify)),
        ("port", _) => seq_print!(to, "port={}\n", options.port),
        ("address", _) => {
            if let Some(address) = options.address {
                seq_print!(to, "address={address:?}\n");
            }
        }
        _ => {}
    }
}

/// Prints the options and the results of a run.
pub(crate) fn print(report: &Report, role: Role, to: &SeqFile) {
    for name in KEYS.iter().filter(|key| role.shows(key)) {
        key(to, name, &report.options);
    }
    let (operations, nanoseconds) = (report.operations, report.nanoseconds);
    let bytes = operations.saturating_mul(report.options.size.into());
    let throughput = throughput(bytes, nanoseconds);
    seq_print!(to, "operations={operations}\nnanoseconds={nanoseconds}\n");
    seq_print!(
        to,
        "operations_per_second={}\n",
        rate(operations, nanoseconds)
    );
    seq_print!(
        to,
        "mib_per_second={}.{:02}\n",
        throughput / 100,
        throughput % 100
    );
    durations(to, "latency", &report.latency);
    durations(to, "post_send", &report.post);
    durations(to, "poll_cq", &report.poll);
    seq_print!(
        to,
        "poll_cq_empty={}\nclock_ns={}\n",
        report.empty_polls,
        report.clock
    );
}
