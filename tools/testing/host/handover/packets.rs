// SPDX-License-Identifier: GPL-2.0

//! Packets of several senders for one queue pair: each is handled once, in its sender's order, and none is forgotten.

use crate::check;
use crate::qp::Qp;
use crate::sync::Arc;
use loom::thread;

/// Runs the work item as long as it is queued. Then nothing may be left, and all packets of each sender are handled in order.
fn settle(qp: &Qp, sent: &[u32]) {
    while qp.work() {}
    for (from, count) in sent.iter().enumerate() {
        let engine = qp.engine.lock();
        let of_sender = engine.packets.iter().filter(|(who, _)| *who == from as u32);
        let numbers: Vec<u32> = of_sender.map(|(_, number)| *number).collect();
        assert_eq!(numbers, Vec::from_iter(0..*count), "of sender {from}");
    }
    assert_eq!(qp.packets_alive(), 0, "packets wait, and nobody comes");
}

fn send(qp: &Arc<Qp>, from: u32, count: u32, here: bool) -> thread::JoinHandle<()> {
    let qp = qp.clone();
    thread::spawn(move || {
        for number in 0..count {
            let packet = qp.packet(from, number);
            qp.receive(packet, here);
        }
    })
}

fn work(qp: &Arc<Qp>, runs: u32) -> thread::JoinHandle<()> {
    let qp = qp.clone();
    thread::spawn(move || {
        for _ in 0..runs {
            qp.work();
        }
    })
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Two senders on other processors, and the work item.
#[test]
fn senders_elsewhere() {
    check(2, || {
        let qp = Qp::alone();
        join([send(&qp, 0, 2, false), send(&qp, 1, 2, false), work(&qp, 2)]);
        settle(&qp, &[2, 2]);
    });
}

/// Two senders where the QP may run: each tries to run it, and one finds it locked.
#[test]
fn senders_here() {
    check(2, || {
        let qp = Qp::alone();
        join([send(&qp, 0, 2, true), send(&qp, 1, 2, true)]);
        settle(&qp, &[2, 2]);
    });
}

/// A sender that may run it, one that may not, and the work item, while the budget is used up.
#[test]
fn both_kinds() {
    check(2, || {
        let qp = Qp::alone();
        join([send(&qp, 0, 2, true), send(&qp, 1, 3, false), work(&qp, 1)]);
        settle(&qp, &[2, 3]);
    });
}

/// A QP that gives each of its packets to another one, whose next run it claims.
#[test]
fn handed_on() {
    check(2, || {
        let alive = Arc::default();
        let (first, second) = (Qp::new(1, Some(2), &alive), Qp::new(2, None, &alive));
        let other = second.clone();
        let worker = {
            let (first, second) = (first.clone(), second.clone());
            thread::spawn(move || first.work_with(&second))
        };
        let busy = {
            let second = second.clone();
            thread::spawn(move || {
                let packet = second.packet(1, 0);
                second.receive(packet, false);
                second.work();
            })
        };
        for number in 0..2 {
            let packet = first.packet(0, number);
            first.receive(packet, false);
        }
        join([worker, busy]);
        while first.is_queued() {
            first.work_with(&other);
        }
        settle(&second, &[2, 1]);
    });
}

/// A QP is destroyed while it is sent to: nobody wakes it afterwards, and all packets are freed.
#[test]
fn destroyed() {
    for here in [false, true] {
        check(3, move || {
            let qp = Qp::alone();
            let senders = [send(&qp, 0, 2, here), work(&qp, 1)];
            qp.destroy();
            join(senders);
            assert!(!qp.is_queued(), "woken after it was closed");
            drop(core::mem::replace(
                &mut *qp.engine.lock(),
                crate::qp::Engine::none(),
            ));
            assert_eq!(qp.packets_alive(), 0);
        });
    }
}

/// One of two senders finds the QP locked by the other one, while it is destroyed.
#[test]
fn destroyed_while_locked() {
    check(3, || {
        let qp = Qp::alone();
        let senders = [send(&qp, 0, 1, true), send(&qp, 1, 1, true)];
        qp.destroy();
        join(senders);
        assert!(!qp.is_queued(), "woken after it was closed");
    });
}
