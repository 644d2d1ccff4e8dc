#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""REQs of hosts that are not there, for a service that nobody has.

  cm_forge.py each TARGET FIRST COUNT            from COUNT addresses, the first of which is FIRST
  cm_forge.py again TARGET ADDRESS COUNT         one of ADDRESS, COUNT times
  cm_forge.py watched TARGET FIRST COUNT DEVICE  as `each`; prints for how many of these hosts DEVICE is asked, until it is not for 5 s
"""
import ipaddress
import os
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rxe"))
import hostile_wire  # noqa: E402

ETH_P_ARP = 0x0806
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


def packets(target: str, first: str, numbers, step: int):
    """The datagrams; a receive queue of MADs has room for 512, so not all come at once."""
    for number in numbers:
        deth = struct.pack(">II", QP1_QKEY, 1)
        body = hostile_wire.bth(hostile_wire.UD_SEND_ONLY, 1, number) + deth + req(number)
        source = ipaddress.ip_address(first) + number * step
        yield hostile_wire.datagram(str(source), target, body), target
        time.sleep(0.0005)


def asked_for(arp: socket.socket, first: str, count: int) -> int:
    """How many of these hosts are looked for (RFC 826: the target of a request), until none is for a while."""
    base, found = int(ipaddress.ip_address(first)), set()
    arp.settimeout(5)
    try:
        while True:
            frame = arp.recv(64)
            target = int.from_bytes(frame[38:42], "big")
            if frame[20:22] == b"\x00\x01" and base <= target < base + count:
                found.add(target)
    except TimeoutError:
        return len(found)


def main() -> None:
    how, target, first, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    if how == "again":
        hostile_wire.send(packets(target, first, [0] * count, 0))
        return
    if how == "each":
        hostile_wire.send(packets(target, first, range(count), 1))
        return
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP)) as arp:
        arp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        arp.bind((sys.argv[5], ETH_P_ARP))
        hostile_wire.send(packets(target, first, range(count), 1))
        print(asked_for(arp, first, count))


main()
