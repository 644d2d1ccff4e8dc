// SPDX-License-Identifier: GPL-2.0

//! The words of the file `run`.

use rdma_perf::options::{
    Limit, Op, Options, Pattern, Poll, PostContext, ValueEnum, KEYS, MAX_TEXT,
};

fn parse(text: &str) -> Option<Options> {
    Options::parse(text.as_bytes(), &KEYS)
}

#[test]
fn nothing_is_the_default() {
    let options = parse("").unwrap();
    assert_eq!(options, Options::default());
    assert_eq!(parse(" \n"), Some(options));
    assert_eq!(options.op, Op::Send);
    assert_eq!(options.limit, Limit::Iterations(1000));
}

#[test]
fn every_key() {
    let options = parse(
        "client=rxe0 server=rxe1 client_gid=1 server_gid=2 op=write pattern=stream size=4096 depth=8 qps=2 seconds=3 \
         post=interrupt poll=direct mtu=4096 verify=1 address=fd00::1 port=7\n",
    )
    .unwrap();
    assert_eq!(options.client.bytes(), Some(&b"rxe0"[..]));
    assert_eq!(options.server.bytes(), Some(&b"rxe1"[..]));
    assert_eq!((options.client_gid, options.server_gid), (1, 2));
    assert_eq!((options.op, options.pattern), (Op::Write, Pattern::Stream));
    assert_eq!((options.size, options.depth, options.qps), (4096, 8, 2));
    assert_eq!(options.limit, Limit::Seconds(3));
    assert_eq!(
        (options.post, options.poll),
        (PostContext::Interrupt, Poll::Direct)
    );
    assert_eq!((options.mtu, options.verify), (4096, true));
    assert_eq!(options.address, Some("fd00::1".parse().unwrap()));
    assert_eq!(options.port, 7);
}

#[test]
fn keys_of_others() {
    assert!(Options::parse(b"op=read", &["op"]).is_some());
    assert_eq!(Options::parse(b"op=read size=1", &["op"]), None);
}

#[test]
fn shared_options() {
    for op in Op::NAMES {
        let text = format!("op={} depth=7 qps=3 verify=1", op.0);
        let options = parse(&text).unwrap();
        let told = Options::from_shared_bytes(options.shared_bytes()).unwrap();
        assert_eq!(told, options);
        let own = parse("server=rxe1 poll=direct").unwrap();
        let both = own.with_shared_of(&told);
        assert_eq!((both.op, both.qps, both.poll), (op.1, 3, Poll::Direct));
        assert_eq!(both.server.bytes(), Some(&b"rxe1"[..]));
    }
    let good = parse("pattern=pingpong size=100").unwrap().shared_bytes();
    for at in 0..good.len() {
        for value in 0..=255 {
            let mut bytes = good;
            bytes[at] = value;
            if let Some(options) = Options::from_shared_bytes(bytes) {
                assert_eq!(options.shared_bytes(), bytes);
                assert!(options.size >= 1 && options.depth == 1 && options.qps <= 64);
            }
        }
    }
}

#[test]
fn what_follows() {
    assert_eq!(parse("op=fetch_add").unwrap().size, 8);
    assert_eq!(parse("op=cmp_swap size=8").unwrap().size, 8);
    assert_eq!(parse("pattern=pingpong").unwrap().depth, 1);
    let options = parse("client=rxe0").unwrap();
    assert_eq!(options.server, options.client);
}

#[test]
fn what_is_not_understood() {
    let bad = [
        "op",
        "op=",
        "=send",
        "op=SEND",
        "op=send,",
        "colour=red",
        "op=send op=send",
        "op=send op=read",
        "size=0",
        "size=-1",
        "size=+1",
        "size=0x10",
        "size=1k",
        "size=1048577",
        "size=99999999999999999999999",
        "depth=0",
        "depth=257",
        "qps=0",
        "qps=65",
        "iterations=0",
        "iterations=1000000001",
        "seconds=0",
        "seconds=3601",
        "iterations=1 seconds=1",
        "mtu=0",
        "mtu=255",
        "mtu=257",
        "mtu=8192",
        "address=host",
        "address=10.0.0.1:5",
        "port=0",
        "port=65536",
        "verify=2",
        "verify=yes",
        "client_gid=65536",
        "client=",
        "client=a/b",
        "post=nowhere",
        "poll=handler",
        "op=fetch_add size=16",
        "op=cmp_swap size=4",
        "pattern=pingpong op=write",
        "pattern=pingpong depth=2",
        "size=1048576 depth=256",
        "depth=256 qps=17",
        "size=1048576 depth=64 qps=2",
        "op = send",
        "op=send=",
        "\u{e9}=1",
    ];
    for text in bad {
        assert_eq!(parse(text), None, "{text:?}");
    }
    assert_eq!(Options::parse(b"op=\xff", &KEYS), None);
    assert_eq!(Options::parse(b"op=send\0", &KEYS), None);
    assert_eq!(parse(&format!("client={}", "a".repeat(64))), None);
    assert!(parse(&format!("client={}", "a".repeat(63))).is_some());
    assert_eq!(parse(&" ".repeat(MAX_TEXT + 1)), None);
    assert!(parse(&" ".repeat(MAX_TEXT)).is_some());
}

#[test]
fn whatever_bytes() {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) as usize
    };
    let words = [
        "op=",
        "send",
        "size=",
        "64",
        " ",
        "=",
        "client",
        "\n",
        "18446744073709551616",
        "iterations=",
        "\0",
        "é",
    ];
    for _ in 0..20_000 {
        let text: String = (0..random() % 12)
            .map(|_| words[random() % words.len()])
            .collect();
        let bytes: Vec<u8> = text
            .bytes()
            .map(|byte| {
                if random() % 50 == 0 {
                    random() as u8
                } else {
                    byte
                }
            })
            .collect();
        if let Some(options) = Options::parse(&bytes, &KEYS) {
            assert!(options.size >= 1 && options.depth >= 1 && options.qps >= 1);
        }
    }
}
