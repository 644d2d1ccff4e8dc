// SPDX-License-Identifier: GPL-2.0

//! Converting work requests to request packets: number of packets, headers, payload, responses (IBTA volume 1, 9.4).

use crate::memory::{AtomicOp, SendExtra, SendOp, SendWr, UdDest};
use crate::mtu::Mtu;
use crate::opcode::{Opcode, Position, Tail};
use crate::psn::Psn;
use crate::run::PacketRun;
use crate::state::{SendAttr, Service, WcOpcode, WcStatus, MAX_MESSAGE};
use crate::wire::{AtomicEth, Bth, Deth, Headers, Ieth, ImmDt, Packet, Parts, Reth, Xrceth};

/// The high bit of a "controlled" queue key, in place of which the queue pair's own is sent (IBTA volume 1, 3.5.3).
const QKEY_FROM_QP: u32 = 1 << 31;

/// Position and flags of a request packet.
#[derive(Clone, Copy)]
pub(crate) struct PacketSpec {
    pub(crate) psn: Psn,
    /// Its number in the message.
    pub(crate) packet: u32,
    /// The number of packets, where it is a run of them.
    pub(crate) count: u32,
    /// Whether it is the last one of the message.
    pub(crate) ends: bool,
    pub(crate) ack_req: bool,
    /// Whether MigReq is set.
    pub(crate) migrated: bool,
}

/// A request packet, or a run of them, and the offset of its payload in the work request's data.
pub(crate) struct Request {
    pub(crate) run: PacketRun,
    pub(crate) offset: u32,
}

/// Properties of a packet that depend on the operation.
struct Content {
    opcode: Opcode,
    parts: Parts,
    has_payload: bool,
}

impl SendWr {
    /// Number of sequence numbers that it uses.
    #[inline]
    pub(crate) fn packets(&self, mtu: Mtu) -> u32 {
        match self.op {
            SendOp::Send { .. } | SendOp::Write { .. } | SendOp::Read { .. } => {
                mtu.packets(self.length)
            }
            SendOp::SendUd { .. }
            | SendOp::Atomic { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. } => 1,
            SendOp::Local { .. } | SendOp::Invalid(_) => 0,
        }
    }

    /// Whether the message takes a receive of the peer.
    #[inline]
    pub(crate) const fn takes_receive(&self) -> bool {
        matches!(
            self.op,
            SendOp::Send { .. } | SendOp::Write { imm: Some(_), .. }
        )
    }

    /// Whether the response is more than an acknowledge.
    #[inline]
    pub(crate) const fn is_answered(&self) -> bool {
        matches!(
            self.op,
            SendOp::Read { .. }
                | SendOp::Atomic { .. }
                | SendOp::AtomicWrite { .. }
                | SendOp::Flush { .. }
        )
    }

    /// Number of bytes in its completion.
    #[inline]
    pub(crate) const fn byte_len(&self) -> u32 {
        match self.op {
            SendOp::Atomic { .. } => 8,
            _ => self.length,
        }
    }

    /// The opcode of its completion.
    pub(crate) const fn wc_opcode(&self) -> Option<WcOpcode> {
        Some(match self.op {
            SendOp::Send { .. } | SendOp::SendUd { .. } => WcOpcode::Send,
            SendOp::Write { .. } => WcOpcode::RdmaWrite,
            SendOp::Read { .. } => WcOpcode::RdmaRead,
            SendOp::Atomic {
                op: AtomicOp::CmpSwap { .. },
                ..
            } => WcOpcode::CompSwap,
            SendOp::Atomic {
                op: AtomicOp::FetchAdd { .. },
                ..
            } => WcOpcode::FetchAdd,
            SendOp::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            SendOp::Flush { .. } => WcOpcode::Flush,
            SendOp::Local { opcode, .. } => opcode,
            SendOp::Invalid(_) => return None,
        })
    }

    /// Checks whether the service supports the operation with this length.
    #[inline]
    pub(crate) fn check(&self, attr: &SendAttr) -> Result<(), WcStatus> {
        let fits = match (attr.service, self.op) {
            (_, SendOp::AtomicWrite { .. }) => self.length == 8,
            (Service::Ud, _) => self.length <= attr.mtu.bytes(),
            _ => self.length <= MAX_MESSAGE,
        };
        let served = match (attr.service, self.op) {
            (Service::Ud, op) => matches!(op, SendOp::SendUd { .. }),
            (_, SendOp::SendUd { .. }) => false,
            (Service::Uc, _) => !self.is_answered(),
            (Service::Rc | Service::XrcIni, _) => !self.is_answered() || attr.max_rd_atomic > 0,
            (Service::XrcTgt, _) => false,
        };
        match (served, fits) {
            (false, _) => Err(WcStatus::LocQpOpErr),
            (true, false) => Err(WcStatus::LocLenErr),
            (true, true) => Ok(()),
        }
    }

    /// The packet for `spec`; `None` where the service has no such packet.
    #[inline]
    pub(crate) fn request(&self, attr: &SendAttr, spec: PacketSpec) -> Option<Request> {
        let offset = spec.packet << attr.mtu.shift();
        let at = Position::of(spec.packet == 0, spec.ends);
        let Content {
            opcode,
            parts,
            has_payload,
        } = self.content(attr, at, offset)?;
        let mut bth = Bth::new(opcode, attr.pkey, attr.dest_qpn, spec.psn);
        if let SendOp::SendUd { dest, .. } = self.op {
            bth.dest_qpn = dest.qpn;
            bth.pkey = dest.pkey.unwrap_or(attr.pkey);
        }
        bth.solicited = self.solicited && opcode.completes_receive();
        bth.ack_req = spec.ack_req;
        bth.migrated = spec.migrated;
        let left = self.length.saturating_sub(offset);
        let len = if has_payload {
            left.min(spec.count << attr.mtu.shift())
        } else {
            0
        };
        let packet = Packet::run(Headers::new(bth, &parts), len, spec.count);
        Some(Request {
            run: PacketRun::new(packet, attr.mtu),
            offset,
        })
    }

    #[inline]
    fn content(&self, attr: &SendAttr, at: Position, offset: u32) -> Option<Content> {
        let service = attr.service.into();
        let mut parts = Parts {
            xrceth: Xrceth { srqn: self.srqn },
            ..Parts::default()
        };
        let (opcode, has_payload) = match self.op {
            SendOp::Send { extra } => {
                let tail = add_extra(extra, &mut parts);
                (Opcode::send(service, at, tail)?, true)
            }
            SendOp::SendUd { imm, dest } => {
                let tail = add_imm(imm, &mut parts);
                parts.deth = deth(&dest, attr);
                (Opcode::send(service, at, tail)?, true)
            }
            SendOp::Write { va, rkey, imm } => {
                let tail = add_imm(imm, &mut parts);
                parts.reth = self.reth(va, rkey, 0);
                (Opcode::write(service, at, tail)?, true)
            }
            SendOp::Read { va, rkey, .. } => {
                parts.reth = self.reth(va, rkey, offset);
                (Opcode::RcReadRequest.in_service(service), false)
            }
            SendOp::Atomic { va, rkey, op } => {
                let (opcode, swap_add, compare) = op.on_wire();
                parts.atomic = AtomicEth {
                    va,
                    rkey,
                    swap_add,
                    compare,
                };
                (opcode.in_service(service), false)
            }
            SendOp::AtomicWrite { va, rkey } => {
                parts.reth = self.reth(va, rkey, 0);
                (Opcode::RcAtomicWrite.in_service(service), true)
            }
            SendOp::Flush { va, rkey, feth } => {
                parts.reth = self.reth(va, rkey, 0);
                parts.feth = feth;
                (Opcode::RcFlush.in_service(service), false)
            }
            SendOp::Local { .. } | SendOp::Invalid(_) => return None,
        };
        Some(Content {
            opcode,
            parts,
            has_payload,
        })
    }

    /// The peer's range after its first `skip` bytes.
    #[inline]
    fn reth(&self, va: u64, rkey: u32, skip: u32) -> Reth {
        Reth {
            va: va.wrapping_add(u64::from(skip)),
            rkey,
            length: self.length.saturating_sub(skip),
        }
    }
}

#[inline]
fn add_imm(imm: Option<u32>, parts: &mut Parts) -> Tail {
    let Some(imm) = imm else {
        return Tail::Plain;
    };
    parts.immdt = ImmDt(imm);
    Tail::Immediate
}

#[inline]
fn add_extra(extra: SendExtra, parts: &mut Parts) -> Tail {
    match extra {
        SendExtra::None => Tail::Plain,
        SendExtra::Imm(imm) => add_imm(Some(imm), parts),
        SendExtra::Invalidate(rkey) => {
            parts.ieth = Ieth { rkey };
            Tail::Invalidate
        }
    }
}

#[inline]
fn deth(dest: &UdDest, attr: &SendAttr) -> Deth {
    let own = dest.qkey & QKEY_FROM_QP != 0;
    Deth {
        qkey: if own { attr.qkey } else { dest.qkey },
        src_qpn: attr.qpn,
    }
}
