// SPDX-License-Identifier: GPL-2.0

//! What ends that are wired by hand say to each other.

use rdma_perf::{
    options::{Op, MAX_QPS},
    peer::{parse, Peer, PeerQp},
};

fn read(text: &[u8]) -> Option<(Peer, Vec<PeerQp>)> {
    let mut qps = Vec::new();
    let peer = parse(text, |qp| {
        qps.push(qp);
        Some(())
    })?;
    Some((peer, qps))
}

const WHERE: &str = "gid=::ffff:10.0.0.2 mac=02:00:00:0a:0b:ff\n";

fn refused(text: &str) {
    assert_eq!(read(text.as_bytes()), None, "{text:?}");
}

#[test]
fn a_client() {
    let text = format!("op=write pattern=stream size=64 depth=2 qps=2 mtu=1024 verify=0\n{WHERE}qpn=17 psn=1\nqpn=18 psn=2\n");
    let (peer, qps) = read(text.as_bytes()).unwrap();
    let options = peer.options.unwrap();
    assert_eq!((options.op, options.size, options.qps), (Op::Write, 64, 2));
    assert_eq!(peer.gid[10..], [0xff, 0xff, 10, 0, 0, 2]);
    assert_eq!(peer.mac, [2, 0, 0, 10, 11, 255]);
    assert_eq!(peer.qps, 2);
    assert_eq!((qps[1].qp_num, qps[1].psn, qps[1].rkey), (18, 2, 0));
}

#[test]
fn a_server() {
    let text =
        format!("{WHERE}qpn=0xffffff psn=0xfffffe address=0xffff800000000000 rkey=4294967295");
    let (peer, qps) = read(text.as_bytes()).unwrap();
    assert_eq!((peer.options, peer.qps), (None, 1));
    assert_eq!((qps[0].qp_num, qps[0].psn), (0xff_ffff, 0xff_fffe));
    assert_eq!(
        (qps[0].address, qps[0].rkey),
        (0xffff_8000_0000_0000, u32::MAX)
    );
}

#[test]
fn what_is_not_understood() {
    refused("");
    refused(WHERE);
    refused("qpn=1");
    refused("gid=:: qpn=1");
    refused("mac=02:00:00:00:00:01 qpn=1");
    for end in [
        "psn=1 qpn=1",
        "qpn=1 psn=16777216",
        "qpn=16777216",
        "qpn=-1",
        "qpn=+1",
        "qpn=0x",
        "qpn=0x+1",
        "qpn=",
        "qpn=1 rkey=4294967296",
        "qpn=1 address=18446744073709551616",
        "qpn=1 gid=::",
        "qpn=1 mac=02:00:00:00:00:01",
        "qpn=1 qps=2",
        "qpn=1 client=rxe0",
        "qpn=1 op=steal",
        "qpn=1 op=send op=send",
        "qpn=1 colour=red",
    ] {
        refused(&format!("{WHERE}{end}"));
    }
    for mac in [
        "1:2:3:4:5:6",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "+2:00:00:00:00:01",
        "gg:00:00:00:00:01",
    ] {
        refused(&format!("gid=:: mac={mac} qpn=1"));
    }
    refused("gid=10.0.0.1 mac=02:00:00:00:00:01 qpn=1");
    assert_eq!(read(b"gid=:: mac=02:00:00:00:00:01 qpn=1 psn=\xff"), None);
}

#[test]
fn not_too_many() {
    let many = |count: u32| format!("{WHERE}{}", "qpn=1\n".repeat(count as usize));
    assert_eq!(read(many(MAX_QPS).as_bytes()).unwrap().0.qps, MAX_QPS);
    refused(&many(MAX_QPS + 1));
}
