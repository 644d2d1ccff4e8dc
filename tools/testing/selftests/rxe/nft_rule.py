#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""One rule of nftables, by netlink: the guest has no nft.

  nft_rule.py accept|drop LENGTH   counts UDP packets for port 4791 to this host whose UDP length is more than that, and their verdict
  nft_rule.py count                prints how many there were
  nft_rule.py delete
"""
import socket
import struct
import sys

NETLINK_NETFILTER = 12
SUBSYSTEM = 10
INET = 1
BATCH_BEGIN, BATCH_END = 0x10, 0x11
NEWTABLE, DELTABLE, NEWCHAIN, NEWRULE, GETRULE = 0, 2, 3, 6, 7
REQUEST, ACK, DUMP, CREATE = 1, 4, 0x300, 0x400
ERROR, DONE = 2, 3
NESTED = 0x8000
NAME = b"ferroband\0"
EQUAL, GREATER = 0, 4
REGISTER, VERDICT = 1, 0
LOCAL_IN, L4PROTO, TRANSPORT = 1, 16, 2


def attribute(kind: int, value: bytes | int | list[bytes]) -> bytes:
    if isinstance(value, list):
        kind, value = kind | NESTED, b"".join(value)
    elif isinstance(value, int):
        value = struct.pack(">I", value)
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def expression(name: str, *data: bytes) -> bytes:
    return attribute(1, [attribute(1, name.encode() + b"\0"), attribute(2, list(data))])


def compare(operation: int, value: bytes) -> bytes:
    return expression("cmp", attribute(1, REGISTER), attribute(2, operation), attribute(3, [attribute(1, value)]))


def load(offset: int) -> bytes:
    """Two bytes of the UDP header."""
    return expression("payload", attribute(1, REGISTER), attribute(2, TRANSPORT), attribute(3, offset), attribute(4, 2))


def message(kind: int, flags: int, body: bytes, family: int = INET, resource: int = 0) -> bytes:
    body = struct.pack(">BBH", family, 0, resource) + body
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, 0, 0) + body


def nft(kind: int, flags: int, *attributes: bytes) -> bytes:
    return message(SUBSYSTEM << 8 | kind, flags, b"".join(attributes))


def talk(request: bytes) -> list[bytes]:
    """The answers, without their heads, up to the first acknowledge or the end of a dump."""
    answers = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as link:
        link.settimeout(10)
        link.send(request)
        while True:
            data = link.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == ERROR:
                    error = -struct.unpack_from("=i", data, 16)[0]
                    if error:
                        raise OSError(error, "nf_tables")
                if kind in (ERROR, DONE):
                    return answers
                answers.append(data[20:length])
                data = data[length:]


def change(*messages: bytes) -> None:
    begin = message(BATCH_BEGIN, 0, b"", 0, SUBSYSTEM)
    talk(begin + b"".join(messages) + message(BATCH_END, 0, b"", 0, SUBSYSTEM))


def add(verdict: int, length: int) -> None:
    rule = [expression("meta", attribute(1, REGISTER), attribute(2, L4PROTO)), compare(EQUAL, b"\x11"),
            load(2), compare(EQUAL, struct.pack(">H", 4791)),
            load(4), compare(GREATER, struct.pack(">H", length)),
            expression("counter"),
            expression("immediate", attribute(1, VERDICT), attribute(2, [attribute(2, [attribute(1, verdict)])]))]
    change(nft(NEWTABLE, CREATE, attribute(1, NAME)),
           nft(NEWCHAIN, CREATE, attribute(1, NAME), attribute(3, NAME), attribute(4, [attribute(1, LOCAL_IN), attribute(2, 0)]),
               attribute(7, b"filter\0")),
           nft(NEWRULE, CREATE | ACK, attribute(1, NAME), attribute(2, NAME), attribute(4, rule)))


def attributes(data: bytes) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found.setdefault(kind & 0x3fff, []).append(data[4:length])
        data = data[length + -length % 4:]
    return found


def count() -> int:
    for answer in talk(nft(GETRULE, DUMP, attribute(1, NAME))):
        for element in attributes(attributes(answer)[4][0])[1]:
            parts = attributes(element)
            if parts[1][0] == b"counter\0":
                return int.from_bytes(attributes(parts[2][0])[2][0], "big")
    raise LookupError("no counter")


def main() -> None:
    match sys.argv[1:]:
        case ["accept", length]:
            add(1, int(length))
        case ["drop", length]:
            add(0, int(length))
        case ["count"]:
            print(count())
        case ["delete"]:
            change(nft(DELTABLE, ACK, attribute(1, NAME)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
