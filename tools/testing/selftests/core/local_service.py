#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The local service of paths (RDMA_NL_LS): the kernel asks it for a path before it asks the subnet administrator.

It orders queries of mad_test, answers them or does not, and tells results: lines "pass|NAME" and "fail|NAME|WHY".
"""
import os
import socket
import struct
import sys
import threading
import time

NETLINK_RDMA, SOL_NETLINK, ADD_MEMBERSHIP, DROP_MEMBERSHIP = 20, 270, 1, 2
REQUEST, ACK, FAILED = 1, 4, 0x100
CLIENT, GROUP = 4, 3
RESOLVE, SET_TIMEOUT = 0, 1
PATH_RECORD, TIMEOUT = 1, 2
# Of a path record: what it is for.
GMP, PRIMARY, ALTERNATE, OUTBOUND, INBOUND, BIDIRECTIONAL = 1, 2, 4, 8, 16, 48
# Components.
SERVICE_ID, DGID, SGID, TCLASS, REVERSIBLE, NUMB_PATH, PKEY, QOS_CLASS = 3, 4, 8, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14
USUAL = DGID | SGID | REVERSIBLE | NUMB_PATH
MANDATORY = 0x2000

SLOWNESS = int(os.environ.get("SLOWNESS", "1"))
STRICT = "strict" in sys.argv
PARAMETERS = "/sys/module/mad_test/parameters"


def attribute(kind: int, payload: bytes) -> bytes:
    data = struct.pack("HH", 4 + len(payload), kind) + payload
    return data + bytes(-len(data) % 4)


def record(flags: int, dlid: int) -> bytes:
    """A path record as an attribute: flags, and the record as it is on the wire."""
    return attribute(PATH_RECORD, struct.pack("II", flags, 0) + bytes(40) + struct.pack(">H", dlid) + bytes(22))


class Netlink:
    def __init__(self, group: bool):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        self.socket.bind((0, 0))
        self.socket.settimeout(10 * SLOWNESS)
        if group:
            self.socket.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, GROUP)

    def send(self, operation: int, flags: int, sequence: int, payload: bytes) -> None:
        self.socket.send(struct.pack("IHHII", 16 + len(payload), CLIENT << 10 | operation, flags, sequence, 0) + payload)

    def asked(self) -> tuple[int, int, int, bytes]:
        """The kernel's next request: type, flags, sequence number and the rest."""
        data = self.socket.recv(65536)
        length, kind, flags, sequence, _ = struct.unpack_from("IHHII", data)
        return kind, flags, sequence, data[16:length]

    def error(self, operation: int, flags: int, payload: bytes, sequence: int = 0x7fffffff) -> int:
        """What a message is acknowledged with."""
        self.send(operation, flags | ACK, sequence, payload)
        while True:
            kind, _, _, rest = self.asked()
            if kind == 2:
                return -struct.unpack_from("i", rest)[0]

    def close(self) -> None:
        self.socket.close()


class Query(threading.Thread):
    """A query that the kernel's client makes, while somebody answers it."""

    def __init__(self, mask: int, timeout: int = 20000, cancel: int | None = None):
        super().__init__()
        self.order = f"path {mask:x} {timeout}" + ("" if cancel is None else f" {cancel}")
        self.start()

    def run(self) -> None:
        with open(f"{PARAMETERS}/run", "w", encoding="ascii") as command:
            command.write(self.order)
        with open(f"{PARAMETERS}/ordered", encoding="ascii") as result:
            self.result = tuple(map(int, result.read().split()))

    def end(self) -> tuple[int, ...]:
        """Status, paths, LID and flags of the last one, how often the administrator was asked, ms."""
        self.join(60 * SLOWNESS)
        return self.result


def check(name: str, ok: bool, got: object = "") -> None:
    print(f"pass|{name}" if ok else f"fail|{name}|got {got}", flush=True)


def equal(name: str, wanted: object, got: object) -> None:
    check(name, wanted == got, got)


def answer(service: Netlink, payload: bytes, mask: int = USUAL, flags: int = 0) -> tuple[int, ...]:
    """A query that is answered so."""
    query = Query(mask)
    _, _, sequence, _ = service.asked()
    service.send(RESOLVE, flags, sequence, payload)
    return query.end()


# What is asked for with all components, as the stock module asked for it: the header, then attributes.
WHOLE = (
    b"fakeib0".ljust(64, b"\0") + bytes([1, 0]) + bytes(2)
    + attribute(MANDATORY | 3, struct.pack("Q", 0x0102030405060708))
    + attribute(MANDATORY | 4, bytes.fromhex("fe800000000000000002c90300000012"))
    + attribute(MANDATORY | 5, bytes.fromhex("fe800000000000000002c90300000011"))
    + attribute(MANDATORY | 6, bytes([0x5a]))
    + attribute(MANDATORY | 7, struct.pack("H", 0x8001))
    + attribute(MANDATORY | 8, struct.pack("H", 0xabc))
)


def trim(message: bytes) -> bytes:
    """Without what stands in holes of the header and between attributes."""
    rest, parts = message[68:], [message[:66] + bytes(2)]
    while len(rest) >= 4:
        length, kind = struct.unpack_from("HH", rest)
        parts.append(attribute(kind, rest[4:length]))
        rest = rest[(length + 3) & ~3:]
    return b"".join(parts)


def messages(service: Netlink) -> None:
    query = Query(SERVICE_ID | USUAL | TCLASS | PKEY | QOS_CLASS)
    kind, flags, first, message = service.asked()
    equal("a request's type", CLIENT << 10 | RESOLVE, kind)
    equal("its flags", REQUEST, flags)
    equal("its content", WHOLE.hex(), trim(message).hex())
    service.send(RESOLVE, 0, first, record(PRIMARY, 77))
    equal("its answer is used, and nobody else asked", (0, 1, 77, PRIMARY, 0), query.end()[:5])
    query = Query(DGID | SGID)
    _, _, second, message = service.asked()
    equal("the next one has the next number", first + 1, second)
    equal("without the wish for a reversible path it is one way", 1, message[65])
    equal("and it has no other attributes", 68 + 2 * 20, len(message))
    service.send(RESOLVE, 0, second, record(PRIMARY | OUTBOUND, 78))
    equal("one way", (0, 1, 78, PRIMARY | OUTBOUND, 0), query.end()[:5])


def answers(service: Netlink) -> None:
    equal("a path both ways", (0, 1, 5, PRIMARY | GMP | BIDIRECTIONAL, 0),
          answer(service, record(PRIMARY | GMP | BIDIRECTIONAL, 5))[:5])
    equal("three paths", (0, 3, 7, PRIMARY | 4, 0),
          answer(service, record(PRIMARY, 5) + record(PRIMARY, 6) + record(PRIMARY | 4, 7))[:5])
    equal("no more than three", (0, 3, 7, PRIMARY, 0),
          answer(service, record(PRIMARY, 5) + record(PRIMARY, 6) + record(PRIMARY, 7) + record(PRIMARY, 8))[:5])
    equal("those that are not for it are left out", (0, 1, 6, PRIMARY, 0),
          answer(service, record(ALTERNATE, 5) + record(PRIMARY, 6) + record(INBOUND, 7))[:5])
    equal("one way, both are left out that do not go out", (0, 1, 7, PRIMARY | OUTBOUND, 0),
          answer(service, record(PRIMARY, 5) + record(OUTBOUND, 6) + record(PRIMARY | OUTBOUND, 7), DGID | SGID)[:5])
    equal("none is for it", (-5, 0, 0, 0, 0), answer(service, record(ALTERNATE, 5))[:5])
    equal("no path", (-5, 0, 0, 0, 0), answer(service, b"")[:5])
    equal("an error: the administrator is asked", (0, 1, 32, 0, 1), answer(service, b"", flags=FAILED)[:5])
    equal("an error with a path: too", (0, 1, 32, 0, 1), answer(service, record(PRIMARY, 5), flags=FAILED)[:5])
    equal("a record that is too long: too", (0, 1, 32, 0, 1),
          answer(service, attribute(PATH_RECORD, bytes(73)))[:5])
    # The stock module reads behind it.
    if STRICT:
        short = answer(service, attribute(PATH_RECORD, struct.pack("II", PRIMARY, 0)))
        check("a record that is too short is not used", short[2] != 0 or short[0] != 0, short)


def wrong(service: Netlink) -> None:
    equal("an answer to nothing is nothing", 0, service.error(RESOLVE, 0, record(PRIMARY, 5)))
    equal("an answer that says it is a request", 1, service.error(RESOLVE, REQUEST, record(PRIMARY, 5)))
    equal("a timeout that is no request", 1, service.error(SET_TIMEOUT, 0, attribute(TIMEOUT, struct.pack("I", 5000))))
    equal("a timeout without a value is nothing", 0, service.error(SET_TIMEOUT, REQUEST, b""))
    equal("one that is too short is nothing", 0, service.error(SET_TIMEOUT, REQUEST, attribute(TIMEOUT, b"\1\2")))
    equal("an operation that there is not", 22, service.error(7, REQUEST, b""))
    query = Query(USUAL)
    _, _, sequence, _ = service.asked()
    service.send(RESOLVE, 0, sequence + 1, record(PRIMARY, 5))
    service.send(RESOLVE, 0, sequence, record(PRIMARY, 6))
    equal("a wrong number is not the answer", (0, 1, 6, PRIMARY, 0), query.end()[:5])


def as_nobody(what: str) -> int:
    """An operation of somebody who is no administrator: its errno."""
    child = os.fork()
    if not child:
        os.setuid(65534)
        link = Netlink(False)
        payload = attribute(TIMEOUT, struct.pack("I", 5000)) if what == "timeout" else record(PRIMARY, 5)
        os._exit(link.error(SET_TIMEOUT if what == "timeout" else RESOLVE, REQUEST if what == "timeout" else 0, payload))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def timeouts(service: Netlink) -> None:
    def set_timeout(value: int) -> None:
        payload = attribute(TIMEOUT, struct.pack("I", value & 0xffffffff))
        equal(f"a time of {value} ms", 0, service.error(SET_TIMEOUT, REQUEST, payload))

    def silent() -> tuple[int, ...]:
        query = Query(USUAL)
        service.asked()
        return query.end()

    def check_time(name: str, least: int, result: tuple[int, ...]) -> None:
        equal(f"{name}: the administrator is asked instead", (0, 1, 32, 0, 1), result[:5])
        check(f"{name}: after its time", least - 20 <= result[5] < least + 700 * SLOWNESS, result)

    check_time("no answer", 2000, silent())
    set_timeout(300)
    check_time("300 ms", 300, silent())
    for value in (99, 0, -1):
        set_timeout(value)
        check_time(f"{value} ms are 100", 100, silent())
    set_timeout(1 << 30)
    query = Query(USUAL)
    service.asked()
    time.sleep(0.3)
    check("a long time: it waits", query.is_alive())
    # Shorter for those that wait, too.
    set_timeout(100)
    check_time("a time that becomes shorter", 300, query.end())
    set_timeout(1000)
    query = Query(USUAL)
    _, _, sequence, _ = service.asked()
    query.end()
    equal("an answer that comes too late is nothing", 0, service.error(RESOLVE, 0, record(PRIMARY, 5), sequence))
    set_timeout(2000)


def cancelled(service: Netlink) -> None:
    query = Query(USUAL, cancel=100)
    _, _, sequence, _ = service.asked()
    result = query.end()
    equal("a query is cancelled while the service has it", (-4, 0, 0, 0, 0), result[:5])
    check("at once", result[5] < 600 * SLOWNESS, result)
    equal("its answer comes too late", 0, service.error(RESOLVE, 0, record(PRIMARY, 5), sequence))


def nobody_listens() -> None:
    result = Query(USUAL).end()
    equal("nobody listens: the administrator is asked", (0, 1, 32, 0, 1), result[:5])
    check("at once", result[5] < 500 * SLOWNESS, result)


def main() -> int:
    nobody_listens()
    service = Netlink(True)
    messages(service)
    answers(service)
    wrong(service)
    equal("who is no administrator sets no time", 1, as_nobody("timeout"))
    equal("and answers nothing", 1, as_nobody("answer"))
    cancelled(service)
    timeouts(service)
    service.socket.setsockopt(SOL_NETLINK, DROP_MEMBERSHIP, GROUP)
    nobody_listens()
    service.close()
    print("end|", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
