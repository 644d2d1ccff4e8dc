// SPDX-License-Identifier: GPL-2.0

//! Times, services, counters, and attributes of queue pairs.
//!
//! concerns rows 6.031, 6.033

use ib_cm_protocol::{
    connection::{Connection, Effects, Given, Stop},
    counters::{self, Group},
    messages::{Attribute, Lap, Rep, Req},
    qp_attr::{self, mask, Alternate, NotNow},
    service::{self, Assigned, Wish},
    states::{Event, Input, State},
    time,
    transport::Transport,
};

/// A connection with other numbers.
macro_rules! with {
    ($from:expr; $($field:ident: $value:expr),*) => {{
        let mut connection = $from;
        $( connection.$field = $value; )*
        connection
    }};
}

#[test]
fn times() {
    assert_eq!(
        [0, 8, 9, 24, 31, 38, 39, 255].map(time::milliseconds),
        [1, 1, 2, 1 << 16, 1 << 23, 1 << 30, 1 << 30, 1 << 30]
    );
    // (delay of the device, life time of a packet, both)
    let cases = [
        (0, 0, 2),
        (0, 5, 6),
        (5, 5, 7),
        (6, 5, 7),
        (7, 5, 8),
        (8, 5, 8),
        (15, 18, 19),
        (18, 18, 20),
        (31, 18, 31),
        (0, 255, 31),
    ];
    for (delay, life, both) in cases {
        assert_eq!(time::ack_timeout(delay, life), both, "{delay} {life}");
    }
    assert_eq!(
        (time::packet_life_time(0), time::packet_life_time(19)),
        (0, 18)
    );
    assert_eq!(
        (time::answer(18, 20), time::after_mra(24, 19)),
        ((1 << 11) + (1 << 12), (1 << 16) + (1 << 11))
    );
}

#[test]
fn services() {
    assert_eq!(Wish::new(service::ASSIGN), Some(Wish::Any));
    assert_eq!(Wish::new(service::ASSIGN + 1), None);
    assert_eq!(
        Wish::new(service::CMA + 1),
        Some(Wish::This(service::CMA + 1))
    );
    let mut assigned = Assigned::new();
    assert_eq!(
        (assigned.take(), assigned.take()),
        (service::ASSIGN, service::ASSIGN + 1)
    );
    assert!(service::may_share(&1, false, Some(&1)));
    assert!(
        !service::may_share(&1, false, Some(&2))
            && !service::may_share(&1, true, Some(&1))
            && !service::may_share(&1, false, None)
    );
}

#[test]
fn transports() {
    for (transport, theirs) in [
        (Transport::Rc, Transport::Rc),
        (Transport::Uc, Transport::Uc),
        (Transport::XrcInitiator, Transport::XrcTarget),
    ] {
        let mut req = Req::default();
        transport.write(&mut req);
        assert_eq!(Transport::of_receiver(&req), theirs);
        assert!(transport.can_connect());
    }
    let req = Req {
        transport_service_type: 2,
        ..Req::default()
    };
    assert_eq!(Transport::of_receiver(&req), Transport::Unknown);
    assert!(!Transport::XrcTarget.can_connect());
}

#[test]
fn counts() {
    assert_eq!(counters::sent(0, false), (1, 0));
    assert_eq!(counters::sent(3, false), (4, 3));
    assert_eq!(counters::sent(0, true), (2, 1));
    assert_eq!(
        Group::ALL.map(Group::name),
        [
            c"cm_tx_msgs",
            c"cm_tx_retries",
            c"cm_rx_msgs",
            c"cm_rx_duplicates"
        ]
    );
    assert_eq!(counters::name(Attribute::SidrRep), c"sidr_rep");
}

/// Surroundings in which nothing can be sent, or everything.
#[derive(Default)]
struct World {
    is_deaf: bool,
    timewaits: Vec<u32>,
    waits: bool,
}

impl Effects for World {
    type Error = u8;
    fn request(&mut self, _: &Connection, _: Attribute) -> Result<(), u8> {
        if self.is_deaf {
            Err(7)
        } else {
            Ok(())
        }
    }
    fn send(&mut self, _: &Connection, _: Attribute) -> Result<(), u8> {
        if self.is_deaf {
            Err(7)
        } else {
            Ok(())
        }
    }
    fn resend(&mut self, _: &Connection, _: Attribute) {}
    fn cancel(&mut self) {}
    fn extend(&mut self, _: &Connection) -> bool {
        self.waits
    }
    fn forget(&mut self) {}
    fn timewait(&mut self, milliseconds: u32) {
        self.timewaits.push(milliseconds);
    }
    fn unlisten(&mut self) {}
    fn forget_sidr(&mut self) {}
    fn switch_path(&mut self) {}
    fn duplicate(&mut self, _: Attribute) {}
}

fn after(connection: Connection, inputs: &[Input]) -> Connection {
    let (mut connection, mut world) = (
        connection,
        World {
            waits: true,
            ..World::default()
        },
    );
    for input in inputs {
        connection
            .drive(*input, Given::default(), &mut world)
            .expect("it goes on");
    }
    connection
}

/// What becomes of the state when a message cannot be sent.
#[test]
fn messages_that_are_not_sent() {
    let established = [Input::SendReq, Input::Rep, Input::SendRtu];
    let cases: [(&[Input], Input, State); 7] = [
        (&[], Input::SendReq, State::Idle),
        (&[Input::Req], Input::SendRep, State::ReqRcvd),
        (&[Input::Req], Input::SendRej, State::Idle),
        (
            &[Input::Req, Input::SendRep],
            Input::SendRej,
            State::Timewait,
        ),
        (&established[..2], Input::SendRtu, State::RepRcvd),
        (&established, Input::SendDreq, State::Timewait),
        (
            &[Input::SendReq, Input::Rep, Input::SendRtu, Input::Dreq],
            Input::SendDrep,
            State::Timewait,
        ),
    ];
    for (inputs, input, state) in cases {
        let mut connection = after(with!(Connection::new(1); ack_timeout: 10), inputs);
        let mut world = World {
            is_deaf: true,
            ..World::default()
        };
        assert_eq!(
            connection.drive(input, Given::default(), &mut world),
            Err(Stop::Unsent(7)),
            "{input:?}"
        );
        assert_eq!(connection.state(), state, "{input:?}");
        assert_eq!(
            world.timewaits,
            if state == State::Timewait {
                vec![4]
            } else {
                vec![]
            }
        );
    }
}

/// An MRA counts if the message waits; its failure later is one of the new state.
#[test]
fn an_mra_makes_the_message_wait() {
    let mut world = World::default();
    let mut connection = after(Connection::new(1), &[Input::SendReq]);
    assert_eq!(
        connection.drive(Input::MraReq, Given::default(), &mut world),
        Err(Stop::Ignored)
    );
    assert_eq!(connection.state(), State::ReqSent);
    world.waits = true;
    assert_eq!(
        connection.drive(Input::MraReq, Given::default(), &mut world),
        Ok(Some(Event::MraReceived))
    );
    assert_eq!(
        connection.drive(Input::SendFailed, Given::default(), &mut world),
        Ok(Some(Event::ReqError))
    );
    // Of another state: what failed is old.
    let mut connection = after(
        Connection::new(1),
        &[Input::Req, Input::SendRep, Input::Rtu],
    );
    assert_eq!(
        connection.drive(Input::SendFailed, Given::default(), &mut world),
        Err(Stop::Ignored)
    );
}

#[test]
fn private_data_is_kept() {
    let mut connection = after(Connection::new(1), &[Input::SendReq, Input::Rep]);
    let given = Given {
        private_data: b"ready",
        transaction: 0,
    };
    connection
        .drive(Input::SendRtu, given, &mut World::default())
        .unwrap();
    assert_eq!(connection.kept(), b"ready");
    let given = Given {
        private_data: &[],
        transaction: 9,
    };
    connection
        .drive(Input::Dreq, given, &mut World::default())
        .unwrap();
    assert_eq!(
        (connection.kept(), connection.transaction),
        (&b"ready"[..], 9)
    );
}

/// An XRC target is not disconnected: others share its queue pair. A handler without memory does not reject.
#[test]
fn ways_to_destroy() {
    let target = with!(Connection::new(1); transport: Transport::XrcTarget);
    assert_eq!(target.destroy(false), Input::DestroyXrcTarget);
    assert_eq!(
        after(target, &[Input::Req]).destroy(true),
        Input::DestroyNoMemory
    );
    let established = after(
        Connection::new(1),
        &[Input::Req, Input::SendRep, Input::Rtu],
    );
    assert_eq!(
        (established.destroy(true), established.destroy(false)),
        (Input::Destroy, Input::Destroy)
    );
}

#[test]
fn a_rep_changes_what_was_asked_for() {
    let rep = Rep {
        local_comm_id: 5,
        local_qpn: 6,
        local_ee_context_number: 7,
        starting_psn: 8,
        responder_resources: 9,
        initiator_depth: 10,
        target_ack_delay: 15,
        rnr_retry_count: 3,
        ..Rep::default()
    };
    let mut connection = with!(Connection::new(1); ack_timeout: 19,
        transport: Transport::XrcInitiator);
    connection.take_rep(&rep);
    assert_eq!(
        (
            connection.remote_id,
            connection.remote_qpn,
            connection.sq_psn,
            connection.ack_timeout
        ),
        (5, 7, 8, 19)
    );
    assert_eq!(
        (
            connection.initiator_depth,
            connection.responder_resources,
            connection.rnr_retry_count
        ),
        (9, 10, 3)
    );
    assert_eq!(Connection::new(1).qpn_of_rep(&rep), 6);
}

#[test]
fn attributes_of_queue_pairs() {
    use mask::*;
    let both = Alternate {
        has_dlid: true,
        has_port: true,
    };
    let none = Alternate::default();
    let idle = Connection::new(1);
    assert_eq!(qp_attr::init(&idle), Err(NotNow));
    let base = with!(idle; sq_psn: 3,
        rq_psn: 4,
        remote_qpn: 5,
        path_mtu: 2,
        responder_resources: 6,
        initiator_depth: 7,
        retry_count: 1,
        rnr_retry_count: 2,
        ack_timeout: 9,
        alternate_ack_timeout: 8,
        transport: Transport::Rc);
    let asked = after(base.clone(), &[Input::SendReq]);
    assert_eq!(
        qp_attr::init(&asked).map(|init| (init.mask, init.serves_reads)),
        Ok((STATE | ACCESS_FLAGS | PKEY_INDEX | PORT, true))
    );
    assert_eq!(
        (qp_attr::rtr(&asked, none), qp_attr::rts(&asked, none)),
        (Err(NotNow), Err(NotNow))
    );
    let rtr = STATE | AV | PATH_MTU | DEST_QPN | RQ_PSN;
    let rts = STATE | SQ_PSN;
    let initiator = RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC;
    let cases = [
        (
            Transport::Rc,
            rtr | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
            rts | initiator | TIMEOUT,
        ),
        (Transport::XrcInitiator, rtr, rts | initiator | TIMEOUT),
        (
            Transport::XrcTarget,
            rtr | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
            rts | TIMEOUT,
        ),
        (Transport::Uc, rtr, rts),
    ];
    for (transport, rtr, rts) in cases {
        let here = after(with!(base.clone(); transport: transport), &[Input::Req]);
        assert_eq!(qp_attr::rtr(&here, none).map(|attr| attr.mask), Ok(rtr));
        assert_eq!(
            qp_attr::rtr(&here, both).map(|attr| attr.mask),
            Ok(rtr | ALT_PATH)
        );
        assert_eq!(qp_attr::rts(&here, none).map(|attr| attr.mask), Ok(rts));
        assert_eq!(
            qp_attr::rts(&here, both).map(|attr| attr.mask),
            Ok(rts | PATH_MIG_STATE)
        );
    }
    let mut loaded = after(base, &[Input::Req, Input::SendRep, Input::Rtu, Input::Lap]);
    for (offered, timeout) in [(17, 17), (1, 1), (0, 1)] {
        loaded.take_lap(&Lap {
            alternate_local_ack_timeout: offered,
            ..Lap::default()
        });
        assert_eq!(
            qp_attr::rts(&loaded, both).map(|attr| (attr.mask, attr.alt_timeout)),
            Ok((ALT_PATH | PATH_MIG_STATE, timeout))
        );
    }
    assert_eq!(
        qp_attr::rtr(&loaded, none).map(|attr| (
            attr.dest_qp_num,
            attr.rq_psn,
            attr.max_dest_rd_atomic,
            attr.path_mtu
        )),
        Ok((5, 4, 6, 2))
    );
}
