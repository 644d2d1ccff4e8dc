// SPDX-License-Identifier: GPL-2.0

//! Local operations.

use super::*;

/// concerns rows 3.031, 3.032, 3.033
#[test]
fn local_operations_run_in_order_once_and_without_packets() {
    let mut rig = Rig::rc();
    for op in [SEND, BIND, SEND, INVALIDATE, SEND] {
        rig.post(op, 1);
    }
    assert_eq!(rig.psns(), [100, 101]);
    assert_eq!(rig.world.locals, [1]);
    rig.time_out();
    assert_eq!(rig.psns(), [100]);
    rig.ack(101);
    assert_eq!(rig.statuses(), [Success; 3]);
    assert_eq!(rig.psns(), [102]);
    assert_eq!(rig.world.locals, [1, 3]);
    rig.ack(102);
    assert_eq!(rig.statuses(), [Success; 5]);
    assert_eq!(rig.world.completions[1].opcode, Some(WcOpcode::BindMw));
}

/// concerns rows 3.084
#[test]
fn a_local_operation_that_fails_stops_the_queue() {
    let mut rig = Rig::rc();
    rig.world.local_result = Err(WcStatus::MwBindErr);
    rig.post(BIND, 0);
    rig.post(SEND, 1);
    rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    rig.run();
    assert_eq!(rig.statuses(), [WcStatus::MwBindErr, WrFlushErr]);
}
