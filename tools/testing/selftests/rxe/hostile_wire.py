#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Packets that no honest peer sends, to UDP port 4791, with right and wrong ICRCs.

  hostile_wire.py proof SOURCE TARGET QPN QKEY     one good UD packet, to show that the ICRCs made here are right
  hostile_wire.py storm SOURCE TARGET COUNT QPN... so many hostile packets, among others to these QPs
  hostile_wire.py listen DEVICE GID_INDEX          prints the number of a UD QP; ends well when the proof arrives
"""
import random
import socket
import struct
import sys
import time
import zlib

PORT = 4791
UD_SEND_ONLY = 0x64
PROOF = b"the ICRC is right"


def bth(opcode: int, qpn: int, psn: int, pad: int = 0, flags: int = 0, version: int = 0, pkey: int = 0xFFFF, ack: int = 0) -> bytes:
    return struct.pack(">BBHII", opcode, flags << 6 | pad << 4 | version, pkey, qpn & 0xFFFFFF, (ack << 31) | (psn & 0xFFFFFF))


def datagram(source: str, target: str, body: bytes, icrc: bool = True) -> bytes:
    """IPv4 and UDP around a transport packet; the ICRC is appended (IBTA annex A17.3.3) or four random bytes."""
    length = 28 + len(body) + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, length, 1, 0x4000, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(target))
    udp = struct.pack(">HHHH", 50000, PORT, length - 20, 0)
    masked = bytearray(b"\xff" * 8 + ip + udp + body)
    for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 28 + 6, 28 + 7, 36 + 4):  # TOS, TTL, checksums, BTH's reserved byte
        if at < len(masked):
            masked[at] = 0xFF
    crc = struct.pack("<I", zlib.crc32(masked)) if icrc else random.randbytes(4)
    return ip + udp + body + crc


# How many there were of each kind of hostile datagram.
kinds = [0] * 6


def hostile(qpns: list[int]) -> bytes:
    """The transport packet of one hostile datagram."""
    qpn = random.choice(qpns + [0, 1, 0xFFFFFF, random.randrange(1 << 24)])
    kind = random.randrange(6)
    kinds[kind] += 1
    if kind == 0:  # cut off in its headers
        return bth(random.randrange(256), qpn, random.randrange(1 << 24))[: random.randrange(13)]
    if kind == 1:  # noise
        return random.randbytes(random.choice((0, 1, 4, 11, 12, 13, 16, 28, 200)))
    opcode = random.randrange(256) if kind == 2 else random.randrange(0x15) | random.choice((0, 0x20, 0x40, 0x60, 0x80))
    head = bth(opcode, qpn, random.choice((0, 1, 0xFFFFFF, random.randrange(1 << 24))), pad=random.randrange(4),
               flags=random.randrange(4), version=random.choice((0, 0, 0, random.randrange(16))), ack=random.randrange(2))
    # RETH-like: an address, a key and a length at the edges of their ranges.
    edges = struct.pack(">QII", random.choice((0, 1, 2**64 - 1, 2**63, random.getrandbits(64))),
                        random.choice((0, 0xFFFFFFFF, random.getrandbits(32))), random.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 4096)))
    if kind == 3:
        return head + edges + random.randbytes(random.choice((0, 1, 3, 12, 256, 1024, 1025)))
    return head + random.randbytes(random.choice((0, 1, 2, 3, 4, 8, 12, 15, 16, 20, 28, 29, 64, 1024, 4000)))


def send(packets) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for packet, target in packets:
            raw.sendto(packet, (target, 0))


def storm(source: str, target: str, count: int, qpns: list[int]) -> None:
    random.seed(1)
    send((datagram(source, target, hostile(qpns), icrc=random.random() < 0.9), target) for _ in range(count))
    print(f"{sum(kinds)} packets to {len(qpns)} queue pairs, by kind: {kinds}")
    if sum(kinds) != count or min(kinds) < count // 10 or not qpns:
        sys.exit("too few of a kind")


def listen(device: str, gid_index: int) -> None:
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
    from pyverbs.wr import RecvWR, SGE
    from pyverbs import libibverbs_enums as enums

    context = Context(name=device)
    pd, cq = PD(context), CQ(context, 8)
    attributes = QPAttr(port_num=1)
    attributes.qkey = 0x11111111
    qp = QP(pd, QPInitAttr(qp_type=enums.ibv_qp_type.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap()), attributes)
    mr = MR(pd, 4096, enums.ibv_access_flags.IBV_ACCESS_LOCAL_WRITE)
    qp.post_recv(RecvWR(sg=[SGE(mr.buf, 4096, mr.lkey)], num_sge=1))
    print(qp.qp_num, flush=True)
    for _ in range(1000):
        if cq.poll()[0]:
            break
        time.sleep(0.01)
    if PROOF not in mr.read(100, 0):
        sys.exit("the proof did not arrive")


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "listen":
        listen(rest[0], int(rest[1]))
    elif what == "proof":
        source, target, qpn, qkey = rest
        pad = -len(PROOF) % 4
        body = bth(UD_SEND_ONLY, int(qpn), 0, pad=pad) + struct.pack(">II", int(qkey, 0), 5) + PROOF + b"\0" * pad
        send([(datagram(source, target, body), target)])
    else:
        storm(rest[0], rest[1], int(rest[2]), [int(qpn) for qpn in rest[3:]])


if __name__ == "__main__":
    main()
