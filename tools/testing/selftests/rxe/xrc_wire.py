#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Decodes the packets of extended reliable connections (IBTA volume 1, annex A14) that pass a net device.

  xrc_wire.py NETDEV SECONDS

It says on standard error when it listens, ends when nothing has come for as long as that, prints how many packets of each opcode there were,
and fails where an ICRC is wrong, where the reserved bits of an XRC header are not zero, where a packet has another length than its headers
and a path of 1024 bytes say, or where the packets of a message name different shared receive queues.
"""
import collections
import socket
import sys

from wire_bytes import PORT, icrc

MTU = 1024
# By operation: name, the other headers in bytes, and the payload: none, a full one, some, or any.
NONE, FULL, SOME, ANY = range(4)
REQUESTS = {
    0x00: ("SEND First", 0, FULL), 0x01: ("SEND Middle", 0, FULL), 0x02: ("SEND Last", 0, SOME), 0x03: ("SEND Last Immediate", 4, SOME),
    0x04: ("SEND Only", 0, ANY), 0x05: ("SEND Only Immediate", 4, ANY), 0x06: ("RDMA WRITE First", 16, FULL),
    0x07: ("RDMA WRITE Middle", 0, FULL), 0x08: ("RDMA WRITE Last", 0, SOME), 0x0A: ("RDMA WRITE Only", 16, ANY),
    0x0C: ("RDMA READ Request", 16, NONE), 0x14: ("FetchAdd", 28, NONE),
}
RESPONSES = {
    0x0D: ("RDMA READ response First", 4, FULL), 0x0E: ("RDMA READ response Middle", 0, FULL), 0x0F: ("RDMA READ response Last", 4, SOME),
    0x10: ("RDMA READ response Only", 4, ANY), 0x11: ("Acknowledge", 4, NONE), 0x12: ("ATOMIC Acknowledge", 12, NONE),
}
# Packets that continue a message.
FURTHER = (0x01, 0x02, 0x03, 0x07, 0x08)


def payload_fits(rule: int, length: int) -> bool:
    """Whether a payload has a length that the opcode allows."""
    return {NONE: length == 0, FULL: length == MTU, SOME: 0 < length <= MTU, ANY: 0 <= length <= MTU}[rule]


def main() -> int:
    netdev, seconds = sys.argv[1], float(sys.argv[2])
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)
    tap.bind((netdev, 3))
    print("listening", file=sys.stderr, flush=True)
    seen, wrong, named, queues = collections.Counter(), collections.Counter(), {}, set()
    tap.settimeout(60)
    while True:
        try:
            packet = tap.recv(1 << 17)
        except TimeoutError:
            break
        if len(packet) < 58 or packet[12:14] != b"\x08\0" or packet[23] != 17 or packet[36:38] != PORT.to_bytes(2, "big"):
            continue
        bth = packet[42:54]
        if bth[0] >> 5 != 5:
            continue
        tap.settimeout(seconds)
        operation, target = bth[0] & 0x1F, bytes(bth[5:8])
        wrong["ICRC"] += icrc(packet) != int.from_bytes(packet[-4:], "little")
        name, headers, rule = {**REQUESTS, **RESPONSES}.get(operation, (f"{bth[0]:#x}", 0, ANY))
        seen["XRC " + name] += 1
        if operation in REQUESTS:
            headers += 4
            wrong["reserved bits"] += packet[54] != 0
            queue = bytes(packet[55:58])
            queues.add(queue)
            # By PSN, for any of them may be sent again.
            psn = int.from_bytes(bth[9:12], "big")
            named[target, psn] = queue
            if operation in FURTHER:
                wrong["queue"] += named.get((target, (psn - 1) % (1 << 24))) != queue
        length = len(packet) - 54 - headers - 4 - (bth[1] >> 4 & 3)
        wrong["length"] += not payload_fits(rule, length)
    for name, count in sorted(seen.items()):
        print(name)
    print(f"{sum(seen.values())} packets, {len(queues)} queues, wrong: {dict(wrong)}", file=sys.stderr)
    return 1 if sum(wrong.values()) or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
