#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Congestion notifications that nobody has asked for, with right ICRCs unless KIND says otherwise.

  congestion.py SOURCE TARGET COUNT QPN [KIND]     KIND: icrc, pkey, short, long, or full (nonsense in what is reserved)
"""
import random
import struct
import sys

from hostile_wire import datagram, send

CNP = 0x81
BECN = 0x40


def notification(qpn: int, kind: str) -> bytes:
    pkey = 0x7ABC if kind == "pkey" else 0xFFFF
    reserved = random.randbytes(16) if kind == "full" else bytes({"short": 12, "long": 20}.get(kind, 16))
    flags, psn = (0xC0, random.getrandbits(31)) if kind == "full" else (0, 0)
    return struct.pack(">BBHII", CNP, flags, pkey, BECN << 24 | qpn, psn) + reserved


def main() -> None:
    source, target, count, qpn, kind = (*sys.argv[1:], "")[:5]
    packet = datagram(source, target, notification(int(qpn, 0), kind), icrc=kind != "icrc")
    send((packet, target) for _ in range(int(count)))


if __name__ == "__main__":
    main()
