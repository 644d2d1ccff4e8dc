// SPDX-License-Identifier: GPL-2.0

//! Doorbells that wait in a completion queue: each request is seen by a run that begins after it.

use crate::check;
use crate::doorbell::{Doorbell, Doorbells};
use crate::prelude::PinInit;
use crate::qp::Qp;
use crate::sync::Arc;
use loom::thread;

fn ring(qp: &Arc<Qp>, request: u32) -> thread::JoinHandle<()> {
    let qp = qp.clone();
    thread::spawn(move || qp.ring(request))
}

/// The timer and the work item, as long as there is something for them.
fn settle(qp: &Arc<Qp>, request: u32) {
    while qp.expire() || qp.work() {}
    assert_eq!(qp.engine.lock().rung, request, "a doorbell is lost");
    qp.destroy();
    assert_eq!(Arc::strong_count(qp), 1, "it waits for ever");
}

/// A program that rings against one that arms its completion queue.
#[test]
fn armed() {
    check(3, || {
        let qp = Qp::alone();
        let first = ring(&qp, 1);
        let second = ring(&qp, 2);
        qp.doorbells.run_all();
        first.join().unwrap();
        second.join().unwrap();
        settle(&qp, 2);
    });
}

/// The timer expires meanwhile.
#[test]
fn expired() {
    check(3, || {
        let qp = Qp::alone();
        qp.ring(1);
        let again = ring(&qp, 2);
        let arm = {
            let qp = qp.clone();
            thread::spawn(move || qp.doorbells.run_all())
        };
        qp.expire();
        again.join().unwrap();
        arm.join().unwrap();
        settle(&qp, 2);
    });
}

/// The program goes on to ring meanwhile, so that the doorbell may wait in two places, and destroys the queue pair.
#[test]
fn rung_again() {
    check(3, || {
        let qp = Qp::alone();
        qp.ring(1);
        let again = {
            let qp = qp.clone();
            thread::spawn(move || {
                qp.ring(2);
                qp.ring(3);
            })
        };
        let arm = {
            let qp = qp.clone();
            thread::spawn(move || qp.doorbells.run_all())
        };
        qp.expire();
        again.join().unwrap();
        arm.join().unwrap();
        qp.destroy();
        assert_eq!(Arc::strong_count(&qp), 1, "it waits for ever");
    });
}

/// Another queue pair.
struct Other;

impl Doorbell for Other {
    fn run_engine(self: Arc<Self>) {}
}

/// There is no room for the doorbell.
#[test]
fn no_room() {
    check(3, || {
        let qp = Qp::alone();
        let full: &Doorbells = &qp.doorbells;
        while full.add(Arc::new(Other)) {}
        let first = ring(&qp, 1);
        let second = ring(&qp, 2);
        qp.work();
        first.join().unwrap();
        second.join().unwrap();
        settle(&qp, 2);
    });
}

/// The queue pair is destroyed while its doorbell waits and the completion queue is armed.
#[test]
fn destroyed() {
    check(3, || {
        let qp = Qp::alone();
        qp.ring(1);
        let arm = {
            let qp = qp.clone();
            thread::spawn(move || qp.doorbells.run_all())
        };
        qp.destroy();
        arm.join().unwrap();
        assert!(!qp.is_queued(), "woken after it was destroyed");
        assert_eq!(Arc::strong_count(&qp), 1, "it waits for ever");
    });
}

/// No doorbell is deferred.
#[test]
fn empty() {
    loom::model(|| Doorbells::new().make().run_all());
}
