// SPDX-License-Identifier: GPL-2.0

//! Requests of kernel consumers: each is handled once, in its poster's order, and none is forgotten.

use crate::check;
use crate::qp::{Qp, CAPACITY};
use crate::sync::Arc;
use loom::thread;

fn post(qp: &Arc<Qp>, requests: &'static [u32]) -> thread::JoinHandle<Vec<u32>> {
    let qp = qp.clone();
    // The queue may be full.
    thread::spawn(move || {
        requests
            .iter()
            .copied()
            .filter(|one| qp.post(*one))
            .collect()
    })
}

/// Two posters and the work item, with fewer slots than requests.
#[test]
fn posted() {
    check(3, || {
        let qp = Qp::alone();
        let posters = [post(&qp, &[10, 11]), post(&qp, &[20, 21])];
        qp.work();
        let posted = posters.map(|poster| poster.join().unwrap());
        while qp.work() {}
        let engine = qp.engine.lock();
        for (tens, posted) in [(1, &posted[0]), (2, &posted[1])] {
            let handled = engine.requests.iter().filter(|one| **one / 10 == tens);
            assert!(handled.eq(posted), "{:?}", engine.requests);
        }
        let count = posted.iter().map(Vec::len).sum::<usize>();
        assert!(count >= CAPACITY as usize);
    });
}
