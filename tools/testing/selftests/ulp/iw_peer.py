#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A peer of an iWARP listener that breaks the protocol (MPA, RFC 5044 and RFC 6581).

  iw_peer.py first-and-gone ADDRESS       asks for a connection in which it sends first, is accepted, and closes
  iw_peer.py first-and-garbage ADDRESS    the same, but sends bytes that are none of the protocol
"""
import socket
import struct
import sys

PORT = 7174
REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
ENHANCED, REJECT = 0x1000, 0x2000
PEER_TO_PEER = WRITE_FIRST = 0x8000


def frame(flags: int, data: bytes) -> bytes:
    return REQUEST + struct.pack("!HH", flags, len(data)) + data


def accepted(address: str) -> socket.socket:
    """A connection in which this side is to send first, and has not."""
    link = socket.create_connection((address, PORT), timeout=15)
    link.sendall(frame(ENHANCED | 2, struct.pack("!HH", PEER_TO_PEER | 1, WRITE_FIRST | 1)))
    reply = link.recv(20, socket.MSG_WAITALL)
    flags, = struct.unpack_from("!H", reply, 16)
    assert reply.startswith(REPLY) and not flags & REJECT, reply
    print(f"accepted, flags {flags:#x}")
    return link


if __name__ == "__main__":
    kind, where = sys.argv[1:]
    peer = accepted(where)
    if kind == "first-and-garbage":
        peer.sendall(b"\xff" * 200)
    peer.close()
