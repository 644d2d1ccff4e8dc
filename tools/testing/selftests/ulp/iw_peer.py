#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A peer of an iWARP listener that breaks the protocol (MPA, RFC 5044 and RFC 6581).

  iw_peer.py first-and-gone ADDRESS       asks for a connection in which it sends first, is accepted, and closes
  iw_peer.py first-and-garbage ADDRESS    the same, but sends bytes that are none of the protocol
  iw_peer.py nonsense ADDRESS             requests of which each is wrong, then one that is right, and closes
"""
import socket
import struct
import sys

PORT = 7174
REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
ENHANCED, REJECT, MARKERS = 0x1000, 0x2000, 0x8000
PEER_TO_PEER = WRITE_FIRST = 0x8000


def frame(flags: int, data: bytes, key: bytes = REQUEST, length: int | None = None) -> bytes:
    return key + struct.pack("!HH", flags, len(data) if length is None else length) + data


def connected(address: str) -> socket.socket:
    link = socket.create_connection((address, PORT), timeout=15)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def accepted(address: str) -> socket.socket:
    """A connection in which this side is to send first, and has not."""
    link = connected(address)
    link.sendall(frame(ENHANCED | 2, struct.pack("!HH", PEER_TO_PEER | 1, WRITE_FIRST | 1)))
    reply = link.recv(20, socket.MSG_WAITALL)
    flags, = struct.unpack_from("!H", reply, 16)
    assert reply.startswith(REPLY) and not flags & REJECT, reply
    print(f"accepted, flags {flags:#x}")
    return link


def nonsense(address: str) -> None:
    wrong = [b"", b"x", b"x" * 20, REQUEST, frame(1, b"", key=REPLY), frame(1, b"", length=0xffff), frame(1, b"x" * 600), frame(MARKERS | 1, b""),
             frame(9, b""), frame(ENHANCED | 2, b""), frame(ENHANCED | 2, b"\xff" * 3), frame(REJECT | 1, b"")]
    for data in wrong:
        link = connected(address)
        link.sendall(data)
        link.close()
    print(f"{len(wrong)} requests that are none")


if __name__ == "__main__":
    kind, where = sys.argv[1:]
    if kind == "nonsense":
        nonsense(where)
    peer = accepted(where)
    if kind == "first-and-garbage":
        peer.sendall(b"\xff" * 200)
    peer.close()
