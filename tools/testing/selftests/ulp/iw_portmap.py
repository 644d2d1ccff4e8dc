#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A port mapper for iw_cm (RDMA_NL_IWCM), which answers as it should or does not, and one that is hostile.

It orders identifiers of iw_test, and tells results: lines "pass|NAME", "known iw_cm|NAME|WHY" and "fail|NAME|WHY".

  iw_portmap.py mapper         the messages of a port mapper, each once, and answers of all kinds
  iw_portmap.py malformed      prints what malformed messages are answered with: the same from any iw_cm
  iw_portmap.py hostile N      N messages of which most are malformed, while identifiers come and go
  iw_portmap.py nobody         whether a program without privileges may be the port mapper
"""
import os
import random
import socket
import struct
import sys
import threading
import time

NETLINK_RDMA, SOL_NETLINK, ADD_MEMBERSHIP, GROUP = 20, 270, 1, 2
REQUEST, MULTI, ACK, ERROR, DONE = 1, 2, 4, 2, 3
CLIENT = 2
REG_PID, ADD, QUERY, REMOVE, REMOTE_INFO, HANDLE_ERR, MAPINFO, MAPINFO_NUM, HELLO = range(9)
VERSION, LIBRARY = 4, b"iWarpPortMapperUser"
REJECT = 16
PARAMETERS = "/sys/module/iw_test/parameters"
SLOWNESS = int(os.environ.get("SLOWNESS", "1"))
STRICT = "strict" in sys.argv


def attribute(kind: int, payload: bytes) -> bytes:
    data = struct.pack("HH", 4 + len(payload), kind) + payload
    return data + bytes(-len(data) % 4)


def attributes(*payloads: bytes) -> bytes:
    """Attributes of the types 1, 2, ..."""
    return b"".join(attribute(kind, payload) for kind, payload in enumerate(payloads, 1))


def u32(value: int) -> bytes:
    return struct.pack("I", value)


def u16(value: int) -> bytes:
    return struct.pack("H", value)


def address(ip: str, port: int) -> bytes:
    """A `struct sockaddr_storage`."""
    if ":" in ip:
        data = struct.pack("=HHI", socket.AF_INET6, socket.htons(port), 0) + socket.inet_pton(socket.AF_INET6, ip)
    else:
        data = struct.pack("=HH", socket.AF_INET, socket.htons(port)) + socket.inet_pton(socket.AF_INET, ip)
    return data.ljust(128, b"\0")


def parsed(payload: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(payload):
        length, kind = struct.unpack_from("HH", payload, at)
        if length < 4:
            break
        found[kind] = payload[at + 4:at + length]
        at += (length + 3) & ~3
    return found


class Message:
    """A message of the kernel."""

    def __init__(self, data: bytes):
        self.length, kind, self.flags, self.sequence, _ = struct.unpack_from("IHHII", data)
        self.kind, self.client, self.op = kind, kind >> 10, kind & 0x3ff
        self.rest = data[16:self.length]
        self.attributes = parsed(self.rest)

    def status(self) -> int:
        return -struct.unpack_from("i", self.rest)[0]


class Netlink:
    def __init__(self, listens: bool = True, wait: float = 5):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        self.socket.bind((0, 0))
        # What a message says of its sender; the stock module believes it, and hangs for ever where it is 0.
        self.claims = self.socket.getsockname()[0]
        self.socket.settimeout(wait * SLOWNESS)
        self.waiting: list[Message] = []
        self.sequence = 100
        if listens:
            self.socket.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, GROUP)

    def send(self, op: int, payload: bytes, flags: int = REQUEST, length: int | None = None) -> int:
        self.sequence += 1
        whole = 16 + len(payload) if length is None else length
        self.socket.send(struct.pack("IHHII", whole, CLIENT << 10 | op, flags, self.sequence, self.claims) + payload)
        return self.sequence

    def receive(self) -> Message:
        while not self.waiting:
            data = self.socket.recv(65536)
            while len(data) >= 16:
                message = Message(data)
                self.waiting.append(message)
                data = data[max(16, (message.length + 3) & ~3):]
        return self.waiting.pop(0)

    def answer_to(self, op: int, payload: bytes, **more: int) -> tuple[str, int]:
        """What a message is answered with, and with which status; other messages stay."""
        sequence = self.send(op, payload, **more)
        kept = []
        try:
            while True:
                message = self.receive()
                if message.kind in (ERROR, DONE) and message.sequence == sequence:
                    return ("error" if message.kind == ERROR else "done"), message.status()
                kept.append(message)
        except TimeoutError:
            return "silence", 0
        finally:
            self.waiting[:0] = kept

    def asked(self, op: int) -> Message:
        """The next message of the kernel with this operation."""
        while True:
            message = self.receive()
            if message.client == CLIENT and message.op == op:
                return message

    def close(self) -> None:
        self.socket.close()


def tell(name: str, is_right: bool, why: object = "", module: str = "") -> None:
    if is_right:
        print(f"pass|{name}", flush=True)
    else:
        print(f"{'known ' + module if module else 'fail'}|{name}|{why}".replace("'", ""), flush=True)


class Order(threading.Thread):
    """A command for iw_test, which waits for the port mapper."""

    def __init__(self, command: str):
        super().__init__()
        self.command = command
        self.begun = time.monotonic()
        self.start()

    def run(self) -> None:
        with open("/dev/kmsg", "w", encoding="ascii") as log:
            log.write("iw_test: mark\n")
        with open(f"{PARAMETERS}/run", "w", encoding="ascii") as command:
            command.write(self.command)
        self.took = time.monotonic() - self.begun

    def said(self) -> str:
        """What the module has said of it: result and ends."""
        self.join()
        lines = os.popen("dmesg").read().split("iw_test: mark")[-1].splitlines()
        found = [line.partition("ports|")[2] for line in lines if f"ports|{self.command} " in line]
        return found[-1].removeprefix(self.command).strip() if found else "nothing"


def order(command: str) -> str:
    return Order(command).said()


def registered(request: Message) -> bytes:
    """The right answer to REG_PID."""
    device = request.attributes[3].split(b"\0")[0] + b"\0"
    return attributes(u32(request.sequence), device, LIBRARY + b"\0", u16(VERSION), u16(0))


def mapper() -> None:
    link = Netlink()
    tell("hello is answered", link.answer_to(HELLO, attributes(u16(VERSION))) == ("done", 0))
    hello = link.asked(HELLO)
    tell("with the version", hello.attributes[1][:2] == u16(VERSION) and hello.flags == REQUEST, hello.attributes)

    if STRICT:
        link.claims = 0
        tell("whatever it says that it is", link.answer_to(HELLO, attributes(u16(VERSION))) == ("done", 0))
        link.asked(HELLO)
        link.claims = link.socket.getsockname()[0]

    # A listener: registration, and a mapping.
    waiting = Order("listen")
    request = link.asked(REG_PID)
    tell("a registration", request.attributes[2] == b"lo".ljust(16, b"\0") and request.attributes[4] == LIBRARY.ljust(32, b"\0")
         and request.attributes[3].startswith(b"iwt"), request.attributes)
    tell("says what we have sent last", request.attributes[1] == u32(link.sequence), request.attributes[1])
    tell("an answer to nothing", link.answer_to(REG_PID, attributes(u32(request.sequence + 7), b"x\0", LIBRARY + b"\0", u16(4), u16(0)))
         == ("done", 22))
    tell("the answer", link.answer_to(REG_PID, registered(request)) == ("done", 0))
    request = link.asked(ADD)
    local = request.attributes[2]
    tell("a mapping is asked for", local == address("10.0.0.1", 7174) and request.attributes[3] == u32(0), request.attributes)
    tell("it is answered", link.answer_to(ADD, attributes(u32(request.sequence), local, address("10.0.0.1", 8174), u16(0))) == ("done", 0))
    tell("the listener has it", waiting.said() == "0 10.0.0.1:8174 10.0.0.2:7175 mapped", waiting.said())

    # Who connects: both ends.
    waiting = Order("connect")
    request = link.asked(QUERY)
    tell("both ends are asked for", request.attributes[2] == address("10.0.0.1", 7174) and request.attributes[3] == address("10.0.0.2", 7175)
         and request.attributes[4] == u32(0), request.attributes)
    ends = request.attributes[2], request.attributes[3]
    tell("they are answered", link.answer_to(QUERY, attributes(u32(request.sequence), *ends, address("10.0.0.1", 9001), address("0.0.0.0", 9002),
                                                              u16(0))) == ("done", 0))
    tell("the driver connects so, and at the peer's own address", waiting.said() == "0 10.0.0.1:9001 10.0.0.2:9002 mapped", waiting.said())

    # A peer of whom the port mapper says where it really is.
    info = attributes(u32(0), address("10.0.0.1", 7174), address("10.0.0.77", 777), address("10.0.0.1", 8174), address("10.0.0.2", 2222), u16(0))
    tell("a peer is announced", link.answer_to(REMOTE_INFO, info) == ("done", 0), "stock says EINVAL", "iw_cm")
    said = order("peer")
    tell("the client hears where it is", said == "0 10.0.0.1:7174 10.0.0.77:777" or said.endswith("10.0.0.77:777"), said)
    said = order("peer")
    tell("once", said.endswith("10.0.0.2:2222"), said)

    # A port mapper that has begun again learns of all mappings.
    tell("it begins again", link.answer_to(MAPINFO, attributes(LIBRARY + b"\0", u16(VERSION))) == ("done", 0))
    records = [link.asked(MAPINFO), link.asked(MAPINFO)]
    got = sorted((record.attributes[1], record.attributes[2], record.attributes[3], record.flags) for record in records)
    wanted = sorted((address("10.0.0.1", 7174), address("10.0.0.1", port), u32(0), MULTI) for port in (8174, 9001))
    tell("all mappings", got == wanted, got)
    number = link.asked(MAPINFO_NUM)
    tell("and their number", number.attributes[1] == u32(0) and number.attributes[2] == u32(2), number.attributes)
    tell("it has got them", link.answer_to(MAPINFO_NUM, attributes(u32(0), u32(2), u32(2))) == ("done", 0))

    order("end")
    removed = [link.asked(REMOVE).attributes[2] for _ in range(2)]
    tell("the mappings are removed", removed == [address("10.0.0.1", 7174)] * 2, removed)
    tell("none is left", link.answer_to(MAPINFO, attributes(LIBRARY + b"\0", u16(VERSION))) == ("done", 0))
    wrong_answers(link)
    many(link)
    link.close()
    gone()


def register(link: Netlink) -> None:
    """The kernel registers again when it maps something."""
    link.answer_to(REG_PID, registered(link.asked(REG_PID)))


def listen_with(link: Netlink, answer, ends: int = 1) -> str:
    """What a listener has whose mapping is answered so."""
    waiting = Order("listen")
    if answer is None or not hasattr(link, "is_registered"):
        register(link)
        link.is_registered = True
    request = link.asked(ADD)
    op, payload = answer(request)
    link.answer_to(op, payload)
    said = waiting.said()
    order("end")
    for _ in range(ends):
        link.asked(REMOVE)
    return said


def wrong_answers(link: Netlink) -> None:
    """Answers that are none: the listener has the ends that it has asked for."""
    own = "0 10.0.0.1:7174 10.0.0.2:7175 mapped"
    here, mapped = address("10.0.0.1", 7174), address("10.0.0.1", 8174)

    def add(asked: bytes, told: bytes):
        return lambda request: (ADD, attributes(u32(request.sequence), asked, told, u16(0)))

    cases = {
        "of another address": add(address("10.0.0.9", 7174), mapped),
        "of another port": add(address("10.0.0.1", 7175), mapped),
        "of another family": add(here, address("fd00::1", 8174)),
        "of no family": add(bytes(128), bytes(128)),
        "that is an error": lambda request: (HANDLE_ERR, attributes(u32(request.sequence), u16(11))),
    }
    for name, answer in cases.items():
        said = listen_with(link, answer)
        tell(f"an answer {name}", said == own, said)
    if STRICT:
        # The stock module takes the answer to one question for that to another.
        waiting = Order("listen")
        request = link.asked(ADD)
        fake = attributes(u32(request.sequence), b"iwt0\0", LIBRARY + b"\0", u16(VERSION), u16(0))
        tell("an answer to another question", link.answer_to(REG_PID, fake) == ("done", 22))
        both = attributes(u32(request.sequence), here, here, mapped, mapped, u16(0))
        tell("and to a third one", link.answer_to(QUERY, both) == ("done", 22))
        link.answer_to(ADD, attributes(u32(request.sequence), here, mapped, u16(0)))
        tell("then the right one", waiting.said() == "0 10.0.0.1:8174 10.0.0.2:7175 mapped")
        order("end")
        link.asked(REMOVE)
    waiting = Order("connect")
    request = link.asked(QUERY)
    ends = request.attributes[2], request.attributes[3]
    link.answer_to(QUERY, attributes(u32(request.sequence), *ends, address("10.0.0.1", 9001), address("10.0.0.2", 9002), u16(REJECT)))
    tell("a peer that has no port mapper", waiting.said() == own, waiting.said())
    order("end")
    link.asked(REMOVE)


def many(link: Netlink) -> None:
    """More mappings than a packet has room for."""
    waiting = Order("many")
    for nth in range(40):
        request = link.asked(ADD)
        link.answer_to(ADD, attributes(u32(request.sequence), request.attributes[2], address("10.0.0.1", 20000 + nth), u16(0)))
    said = waiting.said()
    link.answer_to(MAPINFO, attributes(LIBRARY + b"\0", u16(VERSION)))
    ports, ends = [], 0
    while True:
        message = link.receive()
        if message.kind == DONE:
            ends += 1
        elif message.op == MAPINFO:
            ports.append(struct.unpack_from("!H", message.attributes[2], 2)[0])
        elif message.op == MAPINFO_NUM:
            break
    tell("many mappings", said == "40" and sorted(ports) == list(range(20000, 20040)), (said, len(ports)))
    tell("in several packets", ends > 2 and message.attributes[2] == u32(40), (ends, message.attributes))
    waiting = Order("end-many")
    removed = {link.asked(REMOVE).attributes[2] for _ in range(40)}
    waiting.join()
    tell("all are removed", len(removed) == 40, len(removed))


def gone() -> None:
    """A port mapper that has gone without a word: the kernel finds out when it sends something."""
    said = order("listen")
    tell("who listens does so unmapped", said == "0 10.0.0.1:7174 10.0.0.2:7175", said)
    order("end")
    # One that listens and does not answer is waited for, for some seconds.
    link = Netlink()
    link.answer_to(HELLO, attributes(u16(3)))
    waiting = Order("listen")
    request = link.asked(REG_PID)
    said = waiting.said()
    tell("one that does not answer is waited for", said == "0 10.0.0.1:7174 10.0.0.2:7175" and 8 < waiting.took < 30 * SLOWNESS, (said, waiting.took))
    if STRICT:
        # The stock module looks into the stack of who has asked, and oopses.
        tell("an answer that comes too late", link.answer_to(REG_PID, registered(request)) == ("done", 22))
    order("end")
    # Of the older version, which has no flags.
    waiting = Order("listen")
    request = link.asked(REG_PID)
    device = request.attributes[3].split(b"\0")[0] + b"\0"
    link.answer_to(REG_PID, attributes(u32(request.sequence), device, LIBRARY + b"\0", u16(3), u16(0)))
    request = link.asked(ADD)
    tell("an old port mapper gets no flags", sorted(request.attributes) == [1, 2], request.attributes)
    link.answer_to(ADD, attributes(u32(request.sequence), request.attributes[2], address("10.0.0.1", 8174), u16(0)))
    waiting.join()
    order("end")
    link.close()


def malformed() -> None:
    """What messages are answered with that are none."""
    link = Netlink()
    right = {
        REG_PID: attributes(u32(1), b"iwt0\0", LIBRARY + b"\0", u16(4), u16(0)),
        ADD: attributes(u32(1), address("10.0.0.1", 1), address("10.0.0.1", 2), u16(0)),
        QUERY: attributes(u32(1), *[address("10.0.0.1", port) for port in range(4)], u16(0)),
        REMOTE_INFO: attributes(u32(1), address("10.0.0.1", 1), address("10.0.0.1", 2), address("fd00::1", 3), address("10.0.0.1", 4), u16(0)),
        HANDLE_ERR: attributes(u32(1), u16(11)),
        MAPINFO: attributes(LIBRARY + b"\0", u16(4)),
        MAPINFO_NUM: attributes(u32(0), u32(2), u32(1)),
        HELLO: attributes(u16(4)),
    }
    names = "REG_PID ADD QUERY REMOVE REMOTE_INFO HANDLE_ERR MAPINFO MAPINFO_NUM HELLO".split()
    for op, payload in right.items():
        print(f"== {names[op]}")
        for what, data in variants(payload):
            print(what, *link.answer_to(op, data))
        for flags in (REQUEST | ACK, REQUEST | 0x300, 0, ACK):
            print("flags", hex(flags), *(link.answer_to(op, b"", flags=flags) if flags else ("not sent",)))
    print("== others")
    print("REMOVE", *link.answer_to(REMOVE, b""))
    for op in (9, 10, 1023):
        print(op, *link.answer_to(op, b""))
    print("old library", *link.answer_to(MAPINFO, attributes(LIBRARY + b"\0", u16(2))))
    print("another library", *link.answer_to(MAPINFO, attributes(b"iWarpPortMapper\0", u16(4))))


def variants(payload: bytes):
    """What is left out of a message, cut off, or changed."""
    parts = [(kind, data) for kind, data in parsed(payload).items()]

    def joined(chosen) -> bytes:
        return b"".join(attribute(kind, data) for kind, data in chosen)

    yield "nothing", b""
    yield "half", payload[:len(payload) // 2]
    for nth, (kind, data) in enumerate(parts):
        others = parts[:nth] + parts[nth + 1:]
        yield f"without {kind}", joined(others)
        yield f"{kind} empty", joined([*others, (kind, b"")])
        yield f"{kind} a byte short", joined([*others, (kind, data[:-1])])
        yield f"{kind} too long", joined([*others, (kind, data + bytes(200))])
        yield f"{kind} nested", joined([*others, (kind | 0x8000, data)])
        if len(data) == 128:
            yield f"{kind} of no family", joined([*others, (kind, bytes(128))])
            yield f"{kind} of family 0xffff", joined([*others, (kind, b"\xff" * 128)])
        if b"\0" in data and len(data) < 40:
            yield f"{kind} without its end", joined([*others, (kind, b"x" * 32)])
    yield "unknown ones", payload + attribute(99, b"x" * 8)
    yield "a length of 0", payload + b"\0\0\1\0"


def hostile(count: int) -> None:
    seed = int(os.environ.get("SEED", "1"))
    draw = random.Random(seed)
    stop = threading.Event()

    def identifiers() -> None:
        while not stop.is_set():
            for command in ("listen", "connect", "peer", "end"):
                with open(f"{PARAMETERS}/run", "w", encoding="ascii") as run:
                    run.write(command)

    def piece() -> bytes:
        kind = draw.randrange(6)
        if kind == 0:
            return address(draw.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0", "fd00::1", "::")), draw.choice((0, 1111, 2222, 7174, 7175)))
        if kind == 1:
            return u32(draw.choice((0, 1, link.seen, link.seen + 1, 0xffffffff, draw.getrandbits(32))))
        if kind == 2:
            return draw.choice((LIBRARY, b"iwt0", b"x" * 40, b"")) + b"\0"
        if kind == 3:
            return u16(draw.choice((0, 3, 4, 16, 0xffff)))
        return draw.randbytes(draw.choice((0, 1, 2, 4, 127, 128, 129, 300)))

    def shaped(op: int) -> bytes:
        """Nearly a message."""
        numbers = {REG_PID: "sntvv", ADD: "saav", QUERY: "saaaav", REMOTE_INFO: "saaaav", HANDLE_ERR: "sv", MAPINFO: "tv", MAPINFO_NUM: "sss",
                   HELLO: "v"}.get(op, "s")
        made = {"s": lambda: u32(draw.choice((link.seen, link.seen, 0, 1))), "a": lambda: address("10.0.0.1", draw.choice((7174, 8174))),
                "n": lambda: b"iwt0\0", "t": lambda: LIBRARY + b"\0", "v": lambda: u16(draw.choice((3, 4, 0, 16)))}
        return attributes(*(made[one]() if draw.randrange(12) else piece() for one in numbers))

    link = Netlink(wait=0.001)
    link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    link.seen = 0
    link.send(HELLO, attributes(u16(4)))
    client = threading.Thread(target=identifiers)
    client.start()
    sent = 0
    for sent in range(1, count + 1):
        op = draw.choice((*range(9), draw.randrange(16)))
        data = shaped(op) if draw.randrange(3) else b"".join(attribute(draw.randrange(12), piece()) for _ in range(draw.randrange(8)))
        if draw.randrange(20) == 0 and data:
            data = bytearray(data)
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        length = 16 + len(data) if draw.randrange(30) else draw.choice((0, 15, 16, 17, 20, 0xffff, 0xffffffff))
        try:
            link.send(op, bytes(data), flags=draw.choice((REQUEST, REQUEST, REQUEST | ACK, REQUEST | 0x300)), length=length)
            while True:
                message = Message(link.socket.recv(65536, socket.MSG_DONTWAIT))
                if message.client == CLIENT:
                    link.seen = message.sequence
        except OSError:
            pass
    stop.set()
    # Nobody answers any more; who waits finds out at once.
    link.close()
    client.join()
    tell(f"{count} messages", sent == count, sent)


def nobody() -> None:
    os.setgid(65534)
    os.setuid(65534)
    link = Netlink(listens=False)
    answer = link.answer_to(HELLO, attributes(u16(4)))
    tell("a program without privileges is no port mapper", answer == ("error", 1), answer, "iw_cm")


if __name__ == "__main__":
    match sys.argv[1]:
        case "mapper":
            mapper()
        case "malformed":
            malformed()
        case "hostile":
            hostile(int(sys.argv[2]))
        case "nobody":
            nobody()
    if sys.argv[1] != "malformed":
        print("end|")
