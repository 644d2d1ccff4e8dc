#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Prints the RoCE packets that pass a net device, each with what a peer can see of it, without what differs from one run to the next.

  wire_bytes.py NETDEV SOURCE SECONDS    the packets of RC requests from this address, and of the responses to READs to it

It says on standard error when it listens, ends when nothing has come for as long as that, and fails where an ICRC or a UDP checksum is
wrong, or where it has missed packets. Left out are: IPv4 identification and checksum, UDP checksum, queue pairs, keys, addresses of
memory, credits, and acknowledgements and the requests for them, whose number depends on time. A packet that is sent again is printed
once.
"""
import hashlib
import socket
import struct
import sys
import zlib

PORT = 4791
ETH_P_IP = 0x0800
SO_RCVBUFFORCE, SOL_PACKET, PACKET_STATISTICS = 33, 263, 6
IP, UDP, BTH = slice(14, 34), slice(34, 42), slice(42, 54)
RESPONSES = range(0x0D, 0x11)
# Extension headers, by opcode: RETH (16 bytes), AETH (4), immediate data (4). Requests that have none are left out.
RETH, AETH = (0x06, 0x0A, 0x0B, 0x0C), (0x0D, 0x0F, 0x10)
IMMEDIATE = (0x03, 0x05, 0x09, 0x0B)


def icrc(packet: bytes) -> int:
    """The ICRC of a packet over IPv4 without options (IBTA annex A17.3.3)."""
    masked = bytearray(b"\xff" * 8 + packet[14:-4])
    for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 28 + 6, 28 + 7, 36 + 4):
        masked[at] = 0xFF
    return zlib.crc32(masked)


def has_right_sum(packet: bytes) -> bool:
    """Whether the UDP checksum is right, or 0: none."""
    source_target, (length, told) = packet[26:34], struct.unpack(">HH", packet[38:42])
    words = source_target + struct.pack(">HH", 17, length) + packet[34:]
    words += b"\0" * (len(words) % 2)
    return told == 0 or sum(struct.unpack(f">{len(words) // 2}H", words)) % 0xFFFF == 0


def seen(packet: bytes, first_psn: int) -> tuple:
    """What a peer sees of a packet."""
    ip, udp, bth = packet[IP], packet[UDP], packet[BTH]
    opcode, flags, pkey, _, ack_psn = struct.unpack(">BBHII", bth)
    at, headers = 54, []
    if opcode in RETH:
        headers.append(struct.unpack(">QII", packet[at:at + 16])[2])
        at += 16
    if opcode in AETH:
        headers += [packet[at] >> 5, int.from_bytes(packet[at + 1:at + 4], "big")]
        at += 4
    if opcode in IMMEDIATE:
        headers.append(int.from_bytes(packet[at:at + 4], "big"))
        at += 4
    body = packet[at:-4]
    return ((ack_psn - first_psn) & 0xFFFFFF, opcode in RESPONSES, f"{opcode:#x}", f"{flags:#x}", f"{pkey:#x}",
            *headers, len(body), hashlib.sha256(body).hexdigest()[:16], ip[:4].hex(), ip[6:10].hex(), ip[12:].hex(), udp[2:6].hex())


def main() -> int:
    netdev, source, seconds = sys.argv[1], socket.inet_aton(sys.argv[2]), float(sys.argv[3])
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    tap.bind((netdev, 3))
    print("listening", file=sys.stderr, flush=True)
    packets = []
    while True:
        # The first one may be late.
        tap.settimeout(seconds if packets else 60)
        try:
            packet = tap.recv(1 << 17)
        except TimeoutError:
            break
        if len(packet) >= 58 and packet[12:14] == b"\x08\0" and packet[23] == 17 and packet[36:38] == PORT.to_bytes(2, "big"):
            packets.append(packet)
    missed = struct.unpack("II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    wrong, lines, connections = 0, {}, {}
    summed = numbered = 0
    for packet in packets:
        opcode, psn = packet[42], int.from_bytes(packet[51:54], "big")
        if opcode > 0x10:
            continue
        wrong += icrc(packet) != int.from_bytes(packet[-4:], "little") or not has_right_sum(packet)
        summed += packet[40:42] != b"\0\0"
        numbered += packet[18:20] != b"\0\0"
        forth = packet[26:30] == source
        # The requests of a connection are the first that pass.
        target = packet[47:50] if forth else packet[26:30]
        if forth:
            first = connections.setdefault(target, psn)
        else:
            first = list(connections.values())[-1]
        number = len(connections)
        line = (number, forth, *seen(packet, first))
        lines[line] = None
    for line in sorted(lines):
        print(*line)
    print(f"{len(packets)} packets, {summed} with a UDP checksum, {numbered} with an identification, {wrong} wrong, {missed} missed",
          file=sys.stderr)
    return 1 if wrong or missed or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
