#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""REQs of hosts that are not there, each with an address of its own.

  cm_forge.py TARGET FIRST COUNT    requests for a service that nobody has, from COUNT addresses, the first of which is FIRST
"""
import ipaddress
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rxe"))
import hostile_wire  # noqa: E402

QP1_QKEY = 0x80010000
CLASS, VERSION, SEND, REQ = 7, 2, 3, 0x10


def req(number: int) -> bytes:
    """A MAD with a REQ; its communication ID, GUID and queue pair are those of no other number (IBTA volume 1, 12.6.5)."""
    head = struct.pack(">BBBBHHQHHI", 1, CLASS, VERSION, SEND, 0, 0, 0x1000 + number, REQ, 0, 0)
    data = bytearray(232)
    struct.pack_into(">I", data, 0, 0x7000 + number)
    struct.pack_into(">Q", data, 8, 0xDEAD)  # the service
    struct.pack_into(">Q", data, 16, 0x77 << 32 | number)  # the GUID
    struct.pack_into(">I", data, 32, (0x500 + number) << 8)  # the queue pair
    struct.pack_into(">H", data, 48, 0xFFFF)  # the partition
    return head + bytes(data)


def main() -> None:
    target, first, count = sys.argv[1], ipaddress.ip_address(sys.argv[2]), int(sys.argv[3])
    packets = []
    for number in range(count):
        deth = struct.pack(">II", QP1_QKEY, 1)
        body = hostile_wire.bth(hostile_wire.UD_SEND_ONLY, 1, number) + deth + req(number)
        packets.append((hostile_wire.datagram(str(first + number), target, body), target))
    hostile_wire.send(packets)


main()
