// SPDX-License-Identifier: GPL-2.0

//! The agents of a file, and the ioctls that register and unregister them.
//!
//! An agent has a number from 0 to 31, the lowest that is free in its file. Its handlers put what comes into the file's inbox.
//!
//! C header: `include/uapi/rdma/ib_user_mad.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Agents::state` | the agents of a file; held while one is registered, unregistered, or sends | process context | `Port::device`, `UnderWay::state`, `Inbox::state` (also by handlers that unregistering waits for), what the core and drivers take |

use core::mem::offset_of;

use kernel::{
    ioctl::{_IO, _IOW, _IOWR},
    list::ListArc,
    prelude::*,
    sync::{lock::mutex::MutexBackend, lock::Guard, new_mutex, Arc, Mutex},
    uaccess::{UserPtr, UserSlice},
};
use kernel_ext::bindings::{
    ib_user_mad_reg_req, ib_user_mad_reg_req2, IB_USER_MAD_USER_RMPP, RDMA_IOCTL_MAGIC,
};
use rdma::{
    client::mad::{self, AgentRef, Handlers, Received, Registration, Requests, Sent, SpecialQp},
    MaySleep,
};

use crate::{
    bytes::part,
    header::Header,
    inbox::{Content, Inbox, Packet},
    port::Port,
    under_way::UnderWay,
};

/// The number of agents that a file may have.
pub(crate) const MAX: usize = 32;

/// The flags that a registration may have: `IB_USER_MAD_REG_FLAGS_CAP`.
const FLAGS: u32 = IB_USER_MAD_USER_RMPP;

/// What the handlers of all agents of a file share.
#[pin_data]
pub(crate) struct Shared {
    #[pin]
    pub(crate) inbox: Inbox,
    #[pin]
    pub(crate) under_way: UnderWay,
}

/// The handlers of an agent.
pub(crate) struct Ends {
    id: u32,
    shared: Arc<Shared>,
}

/// What a posted message owns.
pub(crate) struct Ticket {
    /// Its serial number in [`UnderWay`].
    pub(crate) serial: u64,
    /// What its sender reads if it is not answered in time.
    pub(crate) unanswered: ListArc<Packet>,
}

/// An agent of a file.
pub(crate) type Agent = mad::Agent<Ends>;

impl Handlers for Ends {
    type Token = KBox<Ticket>;

    fn sent(&self, ticket: KBox<Ticket>, sent: Sent<Self::Token>, _sleep: &MaySleep) {
        let Ticket { serial, unanswered } = KBox::into_inner(ticket);
        self.shared.under_way.end(serial);
        let timed_out = sent.timed_out();
        // The message is freed before its sender hears of it.
        drop(sent);
        if timed_out {
            self.shared.inbox.add(self.id, unanswered);
        }
    }

    fn received(&self, agent: &AgentRef<'_>, message: Received, sleep: &MaySleep) {
        // A message without a way back, or without memory for it, is dropped.
        let Ok(source) = message.source(agent, sleep) else {
            return;
        };
        let inbox = &self.shared.inbox;
        let length = inbox.layout().size().saturating_add(message.length());
        let header = Header::received(self.id, length, &source);
        if let Ok(packet) = Packet::new(header, Content::Received(message)) {
            inbox.add(self.id, packet);
        }
    }
}

/// The agents by number.
pub(crate) struct Slots {
    agents: [Option<Agent>; MAX],
    /// Whether there was ever one: the layout stays from then on.
    were_used: bool,
}

impl Slots {
    /// An agent.
    pub(crate) fn get(&self, id: u32) -> Option<&Agent> {
        self.agents.get(id as usize)?.as_ref()
    }

    fn free(&mut self) -> Option<(u32, &mut Option<Agent>)> {
        let mut numbered = (0..).zip(self.agents.iter_mut());
        numbered.find(|(_, agent)| agent.is_none())
    }
}

/// The agents of a file.
#[pin_data]
pub(crate) struct Agents {
    #[pin]
    state: Mutex<Slots>,
    shared: Arc<Shared>,
}

/// A registration as a program asks for it.
struct Wish {
    /// What it asks for, or an error that is told where there is room for an agent.
    registration: Result<Registration>,
    /// Whether the program knows the layout with the index of the P_Key.
    knows_pkey: bool,
    /// The place of the agent's number in the structure.
    id_at: usize,
}

impl Agents {
    /// An initialiser without agents.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        let slots = Slots {
            agents: [const { None }; MAX],
            were_used: false,
        };
        try_pin_init!(Self {
            state <- new_mutex!(slots, "Agents::state"),
            shared: Arc::pin_init(
                pin_init!(Shared {
                    inbox <- Inbox::new(),
                    under_way <- UnderWay::new(),
                }),
                GFP_KERNEL,
            )?,
        }? Error)
    }

    /// What the handlers share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Locks the agents: none comes or goes meanwhile.
    pub(crate) fn lock(&self, _sleep: &MaySleep) -> Guard<'_, Slots, MutexBackend> {
        self.state.lock()
    }

    /// Takes all agents out: none is found from now on. Dropping the result unregisters them.
    pub(crate) fn take_all(&self, sleep: &MaySleep) -> [Option<Agent>; MAX] {
        let mut slots = self.lock(sleep);
        for id in 0..MAX as u32 {
            self.shared.inbox.refuse(id);
        }
        core::mem::replace(&mut slots.agents, [const { None }; MAX])
    }

    /// Registers an agent of a port, and tells the program its number.
    fn register(&self, wish: &Wish, call: &Call<'_>) -> Result {
        let mut slots = self.lock(call.sleep);
        let device = call.port.device().ok_or(EPIPE)?;
        let (id, slot) = slots.free().ok_or(ENOMEM)?;
        let registration = wish.registration?;
        let ends = Ends {
            id,
            shared: self.shared.clone(),
        };
        self.shared.inbox.admit(id);
        let registered = Agent::register(device, &registration, ends, call.sleep);
        let told = registered.and_then(|agent| {
            write(call.argument.wrapping_byte_add(wish.id_at), id)?;
            *slot = Some(agent);
            Ok(())
        });
        if told.is_err() {
            self.shared.inbox.refuse(id);
            return told;
        }
        if !slots.were_used && wish.knows_pkey {
            self.shared.inbox.enable_pkey();
        }
        slots.were_used = true;
        Ok(())
    }
}

/// The file that an ioctl is for.
pub(crate) struct Call<'a> {
    /// The port.
    pub(crate) port: &'a Port,
    /// The agents.
    pub(crate) agents: &'a Agents,
    /// The argument.
    pub(crate) argument: UserPtr,
    /// For sleeping.
    pub(crate) sleep: &'a MaySleep,
}

/// An ioctl.
type Method = fn(&Call<'_>) -> Result;

/// The ioctls of a file. 32-bit programs have the same structures: their masks of methods have the same bytes on a little-endian
/// machine.
const METHODS: [(u32, Method); 4] = [
    (_IOWR::<ib_user_mad_reg_req>(RDMA_IOCTL_MAGIC, 1), register),
    (_IOW::<u32>(RDMA_IOCTL_MAGIC, 2), unregister),
    (_IO(RDMA_IOCTL_MAGIC, 3), enable_pkey),
    (
        _IOWR::<ib_user_mad_reg_req2>(RDMA_IOCTL_MAGIC, 4),
        register2,
    ),
];

const _: () = assert!(cfg!(target_endian = "little"));

/// Executes an ioctl.
///
/// # Errors
///
/// `ENOTTY` for an unknown one, and its own.
pub(crate) fn ioctl(command: u32, call: &Call<'_>) -> Result {
    let (_, method) = METHODS
        .iter()
        .find(|(number, _)| *number == command)
        .ok_or(ENOTTY)?;
    method(call)
}

fn read<const N: usize>(from: UserPtr) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    UserSlice::new(from, N).reader().read_slice(&mut bytes)?;
    Ok(bytes)
}

fn write(to: UserPtr, value: u32) -> Result {
    let bytes = value.to_ne_bytes();
    UserSlice::new(to, bytes.len()).writer().write_slice(&bytes)
}

fn special_qp(number: u32) -> Result<SpecialQp> {
    match number {
        0 => Ok(SpecialQp::Smi),
        1 => Ok(SpecialQp::Gsi),
        _ => Err(EINVAL),
    }
}

/// The members of `struct ib_user_mad_reg_req` after the mask of methods, which begins at 4.
const REQ_AFTER_MASK: usize = 20;

/// `IB_USER_MAD_REGISTER_AGENT`.
fn register(call: &Call<'_>) -> Result {
    call.port.device().ok_or(EPIPE)?;
    let bytes: [u8; size_of::<ib_user_mad_reg_req>()] = read(call.argument)?;
    let [qpn, class, class_version, oui @ .., rmpp_version]: [u8; 7] = part(&bytes, REQ_AFTER_MASK);
    let requests = Requests {
        class,
        class_version,
        oui,
        methods: [
            u64::from_ne_bytes(part(&bytes, 4)),
            u64::from_ne_bytes(part(&bytes, 12)),
        ],
    };
    let wish = Wish {
        registration: Ok(Registration {
            port: call.port.number(),
            qp: special_qp(qpn.into())?,
            requests: (class != 0).then_some(requests),
            rmpp_version,
            flags: 0,
        }),
        knows_pkey: false,
        id_at: 0,
    };
    call.agents.register(&wish, call)
}

/// `IB_USER_MAD_REGISTER_AGENT2`.
fn register2(call: &Call<'_>) -> Result {
    call.port.device().ok_or(EPIPE)?;
    let bytes: [u8; size_of::<ib_user_mad_reg_req2>()] = read(call.argument)?;
    let word = |at| u32::from_ne_bytes(part(&bytes, at));
    let qp = special_qp(word(offset_of!(ib_user_mad_reg_req2, qpn)))?;
    let flags_at = offset_of!(ib_user_mad_reg_req2, flags);
    if word(flags_at) & !FLAGS != 0 {
        write(call.argument.wrapping_byte_add(flags_at), FLAGS)?;
        return Err(EINVAL);
    }
    let [class, class_version] = part(&bytes, offset_of!(ib_user_mad_reg_req2, mgmt_class));
    let [above, oui @ ..] = word(offset_of!(ib_user_mad_reg_req2, oui)).to_be_bytes();
    let masks = offset_of!(ib_user_mad_reg_req2, method_mask);
    let requests = Requests {
        class,
        class_version,
        oui,
        methods: [
            u64::from_ne_bytes(part(&bytes, masks)),
            u64::from_ne_bytes(part(&bytes, masks + 8)),
        ],
    };
    let [rmpp_version] = part(&bytes, offset_of!(ib_user_mad_reg_req2, rmpp_version));
    let registration = Registration {
        port: call.port.number(),
        qp,
        requests: (class != 0).then_some(requests),
        rmpp_version,
        flags: word(flags_at),
    };
    let is_valid = class == 0 || above == 0;
    let wish = Wish {
        registration: is_valid.then_some(registration).ok_or(EINVAL),
        knows_pkey: true,
        id_at: offset_of!(ib_user_mad_reg_req2, id),
    };
    call.agents.register(&wish, call)
}

/// `IB_USER_MAD_UNREGISTER_AGENT`.
fn unregister(call: &Call<'_>) -> Result {
    let id = u32::from_ne_bytes(read(call.argument)?);
    let mut slots = call.agents.lock(call.sleep);
    let slot = slots.agents.get_mut(id as usize).ok_or(EINVAL)?;
    let agent = slot.take().ok_or(EINVAL)?;
    call.agents.shared.inbox.refuse(id);
    drop(agent);
    Ok(())
}

/// `IB_USER_MAD_ENABLE_PKEY`.
fn enable_pkey(call: &Call<'_>) -> Result {
    let slots = call.agents.lock(call.sleep);
    if slots.were_used {
        return Err(EINVAL);
    }
    call.agents.shared.inbox.enable_pkey();
    Ok(())
}
