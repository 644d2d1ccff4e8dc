// SPDX-License-Identifier: GPL-2.0

//! What the file `result` says.

use kernel::{seq_file::SeqFile, seq_print};

use crate::{
    drive::Report,
    histogram::Summary,
    options::{Limit, Name, Word},
};

const NS: u64 = 1_000_000_000;
/// Hundredths of a MiB in a KiB and a second in microseconds: 100 / 1024 * 1,000,000.
const CENTI_MIB_PER_KIB_US: u64 = 97_656;

fn name(name: &Name) -> &str {
    let bytes = name.bytes().unwrap_or_default();
    core::str::from_utf8(bytes).unwrap_or_default()
}

/// Operations a second.
fn rate(count: u64, nanoseconds: u64) -> u64 {
    count
        .saturating_mul(NS)
        .checked_div(nanoseconds)
        .unwrap_or(0)
}

/// Hundredths of a MiB a second.
fn throughput(bytes: u64, nanoseconds: u64) -> u64 {
    (bytes >> 10)
        .saturating_mul(CENTI_MIB_PER_KIB_US)
        .checked_div(nanoseconds / 1000)
        .unwrap_or(0)
}

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

/// Prints what a run was like.
pub(crate) fn print(report: &Report, to: &SeqFile) {
    let options = &report.options;
    seq_print!(to, "client={}\n", name(&options.client));
    seq_print!(to, "server={}\n", name(&options.server));
    seq_print!(to, "client_gid={}\n", options.client_gid);
    seq_print!(to, "server_gid={}\n", options.server_gid);
    seq_print!(
        to,
        "op={}\npattern={}\n",
        options.op.word(),
        options.pattern.word()
    );
    seq_print!(
        to,
        "size={}\ndepth={}\nqps={}\n",
        options.size,
        options.depth,
        options.qps
    );
    match options.limit {
        Limit::Iterations(count) => seq_print!(to, "iterations={count}\n"),
        Limit::Seconds(count) => seq_print!(to, "seconds={count}\n"),
    }
    seq_print!(
        to,
        "post={}\npoll={}\n",
        options.post.word(),
        options.poll.word()
    );
    seq_print!(
        to,
        "mtu={}\nverify={}\n",
        options.mtu,
        u8::from(options.verify)
    );
    let (operations, nanoseconds) = (report.operations, report.nanoseconds);
    let bytes = operations.saturating_mul(options.size.into());
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
