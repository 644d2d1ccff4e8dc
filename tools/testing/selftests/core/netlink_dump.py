#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Asks RDMA netlink (nldev) everything about a device that has objects of each kind, and prints the answers, decoded.

  netlink_dump.py DEVICE

Requests go out raw: each command, as dump and as single request, without attributes, with those that it wants, with
wrong ones; then those that change something, with a listener for notices. What differs from run to run (addresses,
keys, numbers) is printed as a name, and objects of the kernel's own are left out: they differ by what else is loaded.
Attributes: <uapi/rdma/rdma_netlink.h>.
"""
import os
import socket
import struct
import subprocess
import sys

import pyverbs.libibverbs_enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

NETLINK_RDMA, NLDEV, NOTIFY = 20, 5, 4
SOL_NETLINK, EXT_ACK, ADD_MEMBERSHIP = 270, 11, 1
REQUEST, MULTI, ACK, DUMP = 1, 2, 4, 0x300
ERROR, DONE = 2, 3

COMMANDS = """UNSPEC GET SET NEWLINK DELLINK PORT_GET SYS_GET SYS_SET UNUSED RES_GET RES_QP_GET RES_CM_ID_GET RES_CQ_GET
RES_MR_GET RES_PD_GET GET_CHARDEV STAT_SET STAT_GET STAT_DEL RES_QP_GET_RAW RES_CQ_GET_RAW RES_MR_GET_RAW RES_CTX_GET
RES_SRQ_GET STAT_GET_STATUS RES_SRQ_GET_RAW NEWDEV DELDEV MONITOR FRMR_POOLS_GET FRMR_POOLS_SET NUM_OPS""".split()
ATTRIBUTES = """PAD DEV_INDEX DEV_NAME PORT_INDEX CAP_FLAGS FW_VERSION NODE_GUID SYS_IMAGE_GUID SUBNET_PREFIX LID SM_LID
LMC PORT_STATE PORT_PHYS_STATE DEV_NODE_TYPE RES_SUMMARY RES_SUMMARY_ENTRY RES_SUMMARY_ENTRY_NAME
RES_SUMMARY_ENTRY_CURR RES_QP RES_QP_ENTRY RES_LQPN RES_RQPN RES_RQ_PSN RES_SQ_PSN RES_PATH_MIG_STATE RES_TYPE
RES_STATE RES_PID RES_KERN_NAME RES_CM_ID RES_CM_ID_ENTRY RES_PS RES_SRC_ADDR RES_DST_ADDR RES_CQ RES_CQ_ENTRY RES_CQE
RES_USECNT RES_POLL_CTX RES_MR RES_MR_ENTRY RES_RKEY RES_LKEY RES_IOVA RES_MRLEN RES_PD RES_PD_ENTRY
RES_LOCAL_DMA_LKEY RES_UNSAFE_GLOBAL_RKEY NDEV_INDEX NDEV_NAME DRIVER DRIVER_ENTRY DRIVER_STRING DRIVER_PRINT_TYPE
DRIVER_S32 DRIVER_U32 DRIVER_S64 DRIVER_U64 RES_PDN RES_CQN RES_MRN RES_CM_IDN RES_CTXN LINK_TYPE SYS_NETNS_MODE
DEV_PROTOCOL NET_NS_FD CHARDEV_TYPE CHARDEV_NAME CHARDEV_ABI CHARDEV UVERBS_DRIVER_ID STAT_MODE STAT_RES
STAT_AUTO_MODE_MASK STAT_COUNTER STAT_COUNTER_ENTRY STAT_COUNTER_ID STAT_HWCOUNTERS STAT_HWCOUNTER_ENTRY
STAT_HWCOUNTER_ENTRY_NAME STAT_HWCOUNTER_ENTRY_VALUE DEV_DIM RES_RAW RES_CTX RES_CTX_ENTRY RES_SRQ RES_SRQ_ENTRY
RES_SRQN MIN_RANGE MAX_RANGE SYS_COPY_ON_FORK STAT_HWCOUNTER_INDEX STAT_HWCOUNTER_DYNAMIC SYS_PRIVILEGED_QKEY_MODE
DRIVER_DETAILS RES_SUBTYPE DEV_TYPE PARENT_NAME NAME_ASSIGN_TYPE EVENT_TYPE SYS_MONITOR_MODE STAT_OPCOUNTER_ENABLED
FRMR_POOLS FRMR_POOL_ENTRY FRMR_POOL_KEY FRMR_POOL_KEY_ATS FRMR_POOL_KEY_ACCESS_FLAGS FRMR_POOL_KEY_VENDOR_KEY
FRMR_POOL_KEY_NUM_DMA_BLOCKS FRMR_POOL_QUEUE_HANDLES FRMR_POOL_MAX_IN_USE FRMR_POOL_IN_USE FRMR_POOLS_AGING_PERIOD
FRMR_POOL_PINNED_HANDLES FRMR_POOL_KEY_KERNEL_VENDOR_KEY""".split()
NUMBER = {name: number for number, name in enumerate(ATTRIBUTES)}
STRINGS = set("""DEV_NAME FW_VERSION RES_SUMMARY_ENTRY_NAME RES_KERN_NAME NDEV_NAME DRIVER_STRING LINK_TYPE DEV_PROTOCOL
CHARDEV_TYPE CHARDEV_NAME STAT_HWCOUNTER_ENTRY_NAME RES_SUBTYPE PARENT_NAME""".split())
NESTED = set("""RES_SUMMARY RES_SUMMARY_ENTRY RES_QP RES_QP_ENTRY RES_CM_ID RES_CM_ID_ENTRY RES_CQ RES_CQ_ENTRY RES_MR
RES_MR_ENTRY RES_PD RES_PD_ENTRY DRIVER DRIVER_ENTRY STAT_COUNTER STAT_COUNTER_ENTRY STAT_HWCOUNTERS
STAT_HWCOUNTER_ENTRY RES_CTX RES_CTX_ENTRY RES_SRQ RES_SRQ_ENTRY FRMR_POOLS FRMR_POOL_ENTRY FRMR_POOL_KEY""".split())
# Counters of our driver that stock has not.
OURS = {b"rp_cnp_ignored\0", b"rp_cnp_handled\0", b"np_ecn_marked_roce_packets\0", b"np_cnp_sent\0"}
# Of no meaning from one run to the next.
HIDDEN = {"RES_LKEY", "RES_RKEY", "RES_LOCAL_DMA_LKEY", "RES_IOVA", "NDEV_INDEX", "CHARDEV"}
U8 = {"DEV_DIM", "STAT_HWCOUNTER_DYNAMIC", "DRIVER_DETAILS", "SYS_NETNS_MODE", "SYS_COPY_ON_FORK",
      "SYS_PRIVILEGED_QKEY_MODE", "SYS_MONITOR_MODE", "DEV_TYPE"}


def parse(data: bytes) -> list[tuple[int, str, object]]:
    """Attributes: flags, name, and the attributes inside or the bytes."""
    found: list[tuple[int, str, object]] = []
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        body, data = data[4:length], data[(length + 3) & ~3:]
        number = kind & 0x3fff
        name = ATTRIBUTES[number] if number < len(ATTRIBUTES) else str(number)
        found.append((kind & 0xc000, name, parse(body) if name in NESTED else body))
    return found


class Decoder:
    """Attributes as lines of text."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, int], str] = {}
        # How many objects of a kind the kernel has for itself.
        self.kernel: dict[str, int] = {}

    def call(self, attribute: str, value: int, name: str) -> None:
        """From now on this value of the attribute is shown as a name."""
        self.names[attribute, value] = name

    def value(self, name: str, data: bytes) -> str:
        if name in HIDDEN:
            return f"({len(data)} bytes)"
        if name in STRINGS:
            return repr(data.decode(errors="replace"))
        if len(data) not in (1, 2, 4, 8):
            return data.hex() or "(empty)"
        number = int.from_bytes(data, "little")
        alias = "RES_LQPN" if name in ("MIN_RANGE", "MAX_RANGE") else name
        return self.names.get((alias, number), f"{number:#x} ({len(data) * 8} bits)")

    def lines(self, attributes: list, indent: str) -> list[str]:
        found = []
        inside = {name: body for _, name, body in attributes}
        for flags, name, body in attributes:
            flag = " nested" if flags & 0x8000 else ""
            if name == "RES_SUMMARY_ENTRY_CURR":
                kind = inside["RES_SUMMARY_ENTRY_NAME"].rstrip(b"\0").decode()
                number = int.from_bytes(body, "little") - self.kernel.get(kind, 0)
                found.append(f"{indent}{name}{flag}: {number} of user space ({len(body) * 8} bits)")
            elif name in NESTED:
                ours = any(inner == "STAT_HWCOUNTER_ENTRY_NAME" and value in OURS for _, inner, value in body)
                if not ours and not any(inner == "RES_KERN_NAME" for _, inner, _ in body):
                    found += [f"{indent}{name}{flag}:", *self.lines(body, indent + "  ")]
            elif name != "PAD":
                found.append(f"{indent}{name}{flag}: {self.value(name, body)}")
        return found


def attribute(name: str, value) -> bytes:
    if isinstance(value, str):
        value = value.encode() + b"\0"
    elif isinstance(value, int):
        value = value.to_bytes(1 if name in U8 else 4, "little")
    length = 4 + len(value)
    return struct.pack("=HH", length, NUMBER[name]) + value + b"\0" * (-length % 4)


class Netlink:
    """One socket."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        self.socket.setsockopt(SOL_NETLINK, EXT_ACK, 1)
        self.socket.settimeout(3)
        self.number = 0

    def ask(self, command: str, dump: bool = False, title: str = "", **attributes) -> None:
        """Sends a request and prints what comes back."""
        shown = title or " ".join(f"{name}={self.shown(name, value)}" for name, value in attributes.items())
        print(f"= {command}{' dump' if dump else ''} {shown}".rstrip())
        self.number += 1
        body = b"".join(attribute(name, value) for name, value in attributes.items())
        flags = REQUEST | (DUMP if dump else ACK)
        self.socket.send(struct.pack("=IHHII", 16 + len(body), NLDEV << 10 | COMMANDS.index(command), flags, self.number, 0) + body)
        try:
            while not self.receive():
                pass
        except TimeoutError:
            print("no answer")

    def shown(self, name: str, value) -> str:
        return self.decoder.names.get((name, value), str(value)) if isinstance(value, int) else str(value)

    def receive(self) -> bool:
        """One piece of an answer; whether it was the last."""
        data = self.socket.recv(65536)
        done = False
        while len(data) >= 16:
            length, kind, flags, number, _ = struct.unpack_from("=IHHII", data)
            body, data = data[16:length], data[(length + 3) & ~3:]
            done |= self.message(kind, flags, body, number)
        return done

    def message(self, kind: int, flags: int, body: bytes, number: int) -> bool:
        if kind == ERROR:
            error = -struct.unpack_from("=i", body)[0]
            # With a text the request is capped to its header.
            text = [line for line in self.text(body[20:] if flags & 0x100 else b"")] if flags & 0x200 else []
            print(f"-> {os.strerror(error) if error else 'done'}", *text)
            return True
        if kind == DONE:
            print(f"-> end of dump {struct.unpack_from('=i', body)[0] or ''}".rstrip())
            return True
        command = kind & 0x3ff
        more = " (multi)" if flags & MULTI else ""
        print(f"{COMMANDS[command]}{more}{'' if kind >> 10 == NLDEV else f' of {kind >> 10}'}{'' if number == self.number else ' unasked'}:")
        print("\n".join(self.decoder.lines(parse(body), "  ")))
        return False

    @staticmethod
    def text(data: bytes) -> list[str]:
        if len(data) < 4:
            return []
        length, kind = struct.unpack_from("=HH", data)
        return [repr(data[4:length].rstrip(b"\0").decode())] if kind & 0x3fff == 1 else []


class Listener(Netlink):
    """Prints notices (rdma monitor)."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__(decoder)
        self.socket.bind((0, 0))
        self.socket.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, NOTIFY)
        self.socket.settimeout(0.5)

    def told(self) -> None:
        try:
            while True:
                self.receive()
        except TimeoutError:
            print("-> no more notices")


class Objects:
    """One or two of each kind, held by this process."""

    def __init__(self, device: str) -> None:
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cqs = [CQ(self.context, 10), CQ(self.context, 20)]
        self.mr = MR(self.pd, 5000, e.ibv_access_flags.IBV_ACCESS_LOCAL_WRITE | e.ibv_access_flags.IBV_ACCESS_REMOTE_READ)
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=5)))
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        self.qps = {}
        for name, kind, srq in (("RC", e.ibv_qp_type.IBV_QPT_RC, None), ("UD", e.ibv_qp_type.IBV_QPT_UD, None), ("UC", e.ibv_qp_type.IBV_QPT_UC, None),
                                ("RC-SRQ", e.ibv_qp_type.IBV_QPT_RC, self.srq)):
            self.qps[name] = QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cqs[0], rcq=self.cqs[1], cap=cap, srq=srq))
        attr = QPAttr(qp_state=e.ibv_qp_state.IBV_QPS_INIT, port_num=1)
        attr.qkey = 0x11111111
        self.qps["UD"].to_rts(attr)


def dumped(netlink: Netlink, command: str, *attributes: bytes) -> list:
    """The attributes of all messages of a dump."""
    netlink.number += 1
    body = b"".join(attributes)
    netlink.socket.send(struct.pack("=IHHII", 16 + len(body), NLDEV << 10 | COMMANDS.index(command), REQUEST | DUMP,
                                    netlink.number, 0) + body)
    found = []
    while True:
        data = netlink.socket.recv(65536)
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            if kind in (DONE, ERROR):
                return found
            found.append(parse(data[16:length]))
            data = data[(length + 3) & ~3:]


def device_index(netlink: Netlink, device: str) -> int:
    """The number of a device."""
    for attributes in dumped(netlink, "GET"):
        inside = {name: body for _, name, body in attributes}
        if inside["DEV_NAME"] == device.encode() + b"\0":
            return int.from_bytes(inside["DEV_INDEX"], "little")
    raise SystemExit(f"there is no device {device}")


# Command, number of an object, kind in the summary.
KINDS = (("RES_PD_GET", "RES_PDN", "pd"), ("RES_CQ_GET", "RES_CQN", "cq"), ("RES_QP_GET", "RES_LQPN", "qp"),
         ("RES_MR_GET", "RES_MRN", "mr"), ("RES_CTX_GET", "RES_CTXN", "ctx"), ("RES_SRQ_GET", "RES_SRQN", "srq"))


def name_objects(netlink: Netlink, index: int) -> dict[str, list[int]]:
    """Gives names to the numbers of this process's objects, in the order in which they are listed."""
    found: dict[str, list[int]] = {}
    for command, key, kind in KINDS:
        for attributes in dumped(netlink, command, attribute("DEV_INDEX", index)):
            entries = next((body for _, name, body in attributes if name in NESTED), [])
            for entry in (dict((name, body) for _, name, body in entry) for _, _, entry in entries):
                if "RES_KERN_NAME" in entry:
                    netlink.decoder.kernel[kind] = netlink.decoder.kernel.get(kind, 0) + 1
                    continue
                number = int.from_bytes(entry[key], "little")
                found.setdefault(key, []).append(number)
                netlink.decoder.call(key, number, f"{kind}{len(found[key])}")
    return found


QUERIES = {"GET": [], "PORT_GET": ["PORT_INDEX"], "SYS_GET": [], "RES_GET": [], "RES_QP_GET": ["RES_LQPN"],
           "RES_CM_ID_GET": ["RES_CM_IDN"], "RES_CQ_GET": ["RES_CQN"], "RES_MR_GET": ["RES_MRN"], "RES_PD_GET": ["RES_PDN"],
           "RES_CTX_GET": ["RES_CTXN"], "RES_SRQ_GET": ["RES_SRQN"], "RES_QP_GET_RAW": ["RES_LQPN"],
           "RES_CQ_GET_RAW": ["RES_CQN"], "RES_MR_GET_RAW": ["RES_MRN"], "RES_SRQ_GET_RAW": ["RES_SRQN"]}


def queries(netlink: Netlink, index: int, numbers: dict[str, list[int]]) -> None:
    for command, keys in QUERIES.items():
        print(f"== {command}")
        netlink.ask(command, dump=True)
        netlink.ask(command, dump=True, DEV_INDEX=index)
        netlink.ask(command, dump=True, DEV_INDEX=index, PORT_INDEX=1)
        netlink.ask(command, dump=True, DEV_INDEX=index, PORT_INDEX=2)
        netlink.ask(command, dump=True, DEV_INDEX=99999)
        netlink.ask(command, dump=True, DEV_INDEX=index, DRIVER_DETAILS=1)
        netlink.ask(command)
        netlink.ask(command, DEV_INDEX=index)
        netlink.ask(command, DEV_INDEX=99999)
        netlink.ask(command, title="a number too short", DEV_INDEX=b"\1")
        for key in keys:
            known = numbers.get(key, [1, 2])
            for number in [*known, 0xffffff]:
                netlink.ask(command, DEV_INDEX=index, **{key: number})
            netlink.ask(command, DEV_INDEX=index, DRIVER_DETAILS=1, **({"PORT_INDEX": 1} | {key: known[0]}))
            netlink.ask(command, **{key: known[0]})


def statistics(netlink: Netlink, index: int, numbers: dict[str, list[int]]) -> None:
    qp, mr = NUMBER["RES_QP"], NUMBER["RES_MR"]
    port = {"DEV_INDEX": index, "PORT_INDEX": 1}
    print("== STAT_GET")
    for attributes in ({}, {"DEV_INDEX": index}, {"PORT_INDEX": 1}, {"DEV_INDEX": 99999, "PORT_INDEX": 1},
                       {"DEV_INDEX": index, "PORT_INDEX": 2}, port, {"STAT_RES": qp}, {"STAT_RES": mr}, {"STAT_RES": 999},
                       port | {"STAT_RES": qp}, port | {"STAT_RES": mr}, port | {"STAT_RES": 999},
                       port | {"STAT_RES": qp, "STAT_COUNTER_ID": 1}, port | {"STAT_RES": qp, "RES_LQPN": numbers["RES_LQPN"][0]},
                       {"DEV_INDEX": index, "STAT_RES": mr, "RES_MRN": numbers["RES_MRN"][0]},
                       {"DEV_INDEX": index, "STAT_RES": mr, "RES_MRN": 0xffffff}):
        netlink.ask("STAT_GET", **attributes)
        netlink.ask("STAT_GET", dump=True, **attributes)
    print("== STAT_GET_STATUS")
    for attributes in ({}, {"DEV_INDEX": index}, port, {"DEV_INDEX": index, "PORT_INDEX": 2}, {"DEV_INDEX": 99999, "PORT_INDEX": 1}):
        netlink.ask("STAT_GET_STATUS", **attributes)
    print("== STAT_SET and STAT_DEL")
    for attributes in ({}, port, port | {"STAT_RES": qp}, port | {"STAT_RES": mr, "STAT_MODE": 1},
                       port | {"STAT_RES": qp, "STAT_MODE": 0}, port | {"STAT_RES": qp, "STAT_MODE": 1},
                       port | {"STAT_RES": qp, "STAT_MODE": 1, "STAT_AUTO_MODE_MASK": 1},
                       port | {"STAT_RES": qp, "STAT_MODE": 2, "RES_LQPN": numbers["RES_LQPN"][0]},
                       port | {"STAT_RES": qp, "STAT_MODE": 2, "RES_LQPN": 0xffffff}, port | {"STAT_RES": qp, "STAT_MODE": 3},
                       port | {"STAT_RES": qp, "STAT_MODE": 2}, {"DEV_INDEX": 99999, "PORT_INDEX": 1, "STAT_RES": qp},
                       port | {"STAT_HWCOUNTERS": attribute("STAT_HWCOUNTER_ENTRY", 0)}):
        netlink.ask("STAT_SET", **attributes)
    for attributes in ({}, port, port | {"STAT_RES": qp}, port | {"STAT_RES": mr}, port | {"STAT_RES": qp, "STAT_COUNTER_ID": 1},
                       port | {"STAT_RES": qp, "STAT_COUNTER_ID": 1, "RES_LQPN": numbers["RES_LQPN"][0]}):
        netlink.ask("STAT_DEL", **attributes)
    netlink.ask("STAT_GET", **port, STAT_RES=qp)
    print("== FRMR_POOLS_GET and FRMR_POOLS_SET")
    for attributes in ({}, {"DEV_INDEX": index}, {"DEV_INDEX": 99999}):
        netlink.ask("FRMR_POOLS_GET", **attributes)
        netlink.ask("FRMR_POOLS_GET", dump=True, **attributes)
        netlink.ask("FRMR_POOLS_SET", **attributes)
        netlink.ask("FRMR_POOLS_SET", FRMR_POOLS_AGING_PERIOD=60, **attributes)


def odd(netlink: Netlink, index: int) -> None:
    print("== GET_CHARDEV")
    for attributes in ({}, {"CHARDEV_TYPE": "uverbs"}, {"DEV_INDEX": index}, {"DEV_INDEX": index, "CHARDEV_TYPE": "uverbs"},
                       {"DEV_INDEX": index, "CHARDEV_TYPE": "nosuch"}, {"DEV_INDEX": index, "CHARDEV_TYPE": ""},
                       {"DEV_INDEX": index, "CHARDEV_TYPE": "x" * 200}, {"DEV_INDEX": 99999, "CHARDEV_TYPE": "uverbs"}):
        netlink.ask("GET_CHARDEV", title=" ".join(f"{k}={'DEV' if v == index else v}" for k, v in attributes.items()), **attributes)
    netlink.ask("GET_CHARDEV", dump=True)
    print("== no commands")
    for command in ("UNSPEC", "UNUSED", "MONITOR", "NUM_OPS"):
        netlink.ask(command)
        netlink.ask(command, dump=True)
    print("== dumps of what has none")
    for command in ("SET", "NEWLINK", "DELLINK", "SYS_GET", "SYS_SET", "STAT_SET", "STAT_DEL", "NEWDEV", "DELDEV", "STAT_GET_STATUS"):
        netlink.ask(command, dump=True, DEV_INDEX=index)


def changes(netlink: Netlink, index: int, device: str) -> None:
    listener = Listener(netlink.decoder)

    def change(command: str, **attributes) -> None:
        netlink.ask(command, **attributes)
        listener.told()

    print("== SET")
    change("SET")
    change("SET", DEV_INDEX=index)
    change("SET", DEV_NAME="other")
    change("SET", DEV_INDEX=index, DEV_NAME="other")
    netlink.ask("GET", DEV_INDEX=index)
    change("SET", DEV_INDEX=index, DEV_NAME="other")
    change("SET", DEV_INDEX=index, DEV_NAME=device)
    for name in ("", "a%d", "x" * 64, "x" * 63, "a/b"):
        change("SET", DEV_INDEX=index, DEV_NAME=name)
    change("SET", DEV_INDEX=index, DEV_NAME=device)
    change("SET", DEV_INDEX=99999, DEV_NAME="other")
    change("SET", DEV_INDEX=index, DEV_DIM=1)
    change("SET", DEV_INDEX=index, NET_NS_FD=9999)
    print("== SYS_SET")
    change("SYS_SET")
    change("SYS_SET", SYS_NETNS_MODE=2)
    change("SYS_SET", SYS_NETNS_MODE=1)
    change("SYS_SET", SYS_PRIVILEGED_QKEY_MODE=1)
    netlink.ask("SYS_GET")
    change("SYS_SET", SYS_PRIVILEGED_QKEY_MODE=0)
    change("SYS_SET", SYS_PRIVILEGED_QKEY_MODE=7)
    change("SYS_SET", SYS_PRIVILEGED_QKEY_MODE=0)
    netlink.ask("SYS_GET")
    print("== NEWLINK and DELLINK")
    change("NEWLINK")
    change("NEWLINK", DEV_NAME="new", LINK_TYPE="nosuch", NDEV_NAME="lo")
    change("NEWLINK", DEV_NAME="new", LINK_TYPE="rxe", NDEV_NAME="nosuch")
    change("NEWLINK", DEV_NAME="new", LINK_TYPE="rxe")
    change("NEWLINK", DEV_NAME="n%d", LINK_TYPE="rxe", NDEV_NAME="lo")
    change("NEWLINK", DEV_NAME=device, LINK_TYPE="rxe", NDEV_NAME="lo")
    netlink.ask("NEWLINK", DEV_NAME="new", LINK_TYPE="rxe", NDEV_NAME="lo")
    new = device_index(netlink, "new")
    netlink.decoder.call("DEV_INDEX", new, "NEW")
    listener.told()
    netlink.ask("GET", DEV_INDEX=new)
    netlink.ask("PORT_GET", DEV_INDEX=new, PORT_INDEX=1)
    change("SET", DEV_INDEX=new, DEV_NAME=device)
    change("NEWLINK", DEV_NAME="newer", LINK_TYPE="rxe", NDEV_NAME="lo")
    change("DELLINK", DEV_INDEX=new)
    change("DELLINK", DEV_INDEX=new)
    change("DELLINK")
    change("DELLINK", DEV_INDEX=99999)
    print("== the network device")
    for command in ("link set vethS name vethU", "link set vethU name vethS", "link set vethT down", "link set vethT up"):
        print("=", command)
        subprocess.run(["ip", *command.split()], check=True)
        listener.told()
    print("== NEWDEV and DELDEV")
    change("NEWDEV", DEV_INDEX=index)
    change("NEWDEV", DEV_INDEX=index, DEV_NAME="sub", DEV_TYPE=1)
    change("NEWDEV", DEV_INDEX=index, DEV_NAME="sub", DEV_TYPE=9)
    change("DELDEV")
    change("DELDEV", DEV_INDEX=index)
    change("DELDEV", DEV_INDEX=99999)


def unprivileged(netlink: Netlink, index: int) -> None:
    print("== without privileges")
    os.setresuid(65534, 65534, 65534)
    mine = Netlink(netlink.decoder)
    for command in COMMANDS[1:-1]:
        mine.ask(command, DEV_INDEX=index)
    for command in ("RES_QP_GET", "RES_MR_GET", "RES_QP_GET_RAW", "RES_PD_GET"):
        mine.ask(command, dump=True, DEV_INDEX=index)


def main() -> None:
    device = sys.argv[1]
    decoder = Decoder()
    netlink = Netlink(decoder)
    index = device_index(netlink, device)
    objects = Objects(device)  # held until the end
    decoder.call("DEV_INDEX", index, "DEV")
    decoder.call("RES_PID", os.getpid(), "ME")
    numbers = name_objects(netlink, index)
    queries(netlink, index, numbers)
    statistics(netlink, index, numbers)
    odd(netlink, index)
    changes(netlink, index, device)
    unprivileged(netlink, index)
    del objects


if __name__ == "__main__":
    main()
