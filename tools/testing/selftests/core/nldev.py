#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Sends a command of RDMA netlink and prints the answers, each attribute on a line (include/uapi/rdma/rdma_netlink.h).

  nldev.py [--dump] [--not-root] COMMAND [ATTRIBUTE=VALUE...]

COMMAND is a name without RDMA_NLDEV_CMD_, ATTRIBUTE one without RDMA_NLDEV_ATTR_. VALUE is a number, a text, or
(A=V,A=V) for attributes inside of one; 0x:00ff are bytes as they are, whatever the attribute. dev=NAME stands for the
index of the device. What fails is printed as "error NAME", with the kernel's words where it has some; the exit status
is 1 then. The index of the device is not printed: it is another one each time.
"""
import errno
import os
import socket
import struct
import sys

NETLINK_RDMA, SOL_NETLINK, NETLINK_EXT_ACK = 20, 270, 11
CLIENT = 5  # RDMA_NL_NLDEV
REQUEST, ACK, DUMP, ACK_TLVS = 1, 4, 0x300, 0x200
NESTED = 0x8000
ERROR, DONE, NLMSGERR_ATTR_MSG = 2, 3, 1

COMMANDS = {name: number for number, name in enumerate(
    "UNSPEC GET SET NEWLINK DELLINK PORT_GET SYS_GET SYS_SET 8 RES_GET RES_QP_GET RES_CM_ID_GET RES_CQ_GET RES_MR_GET "
    "RES_PD_GET GET_CHARDEV STAT_SET STAT_GET STAT_DEL RES_QP_GET_RAW RES_CQ_GET_RAW RES_MR_GET_RAW RES_CTX_GET "
    "RES_SRQ_GET STAT_GET_STATUS RES_SRQ_GET_RAW NEWDEV DELDEV MONITOR FRMR_POOLS_GET FRMR_POOLS_SET".split())}

# In the order of the header. /1 /4 /8: a number of so many bytes, /s: a text, /n: others inside, else bytes.
ATTRIBUTES = [tuple((attribute + "/").split("/")[:2]) for attribute in """
UNSPEC DEV_INDEX/4 DEV_NAME/s PORT_INDEX/4 CAP_FLAGS/8 FW_VERSION/s NODE_GUID/8 SYS_IMAGE_GUID/8 SUBNET_PREFIX/8 LID/4
SM_LID/4 LMC/1 PORT_STATE/1 PORT_PHYS_STATE/1 DEV_NODE_TYPE/1 RES_SUMMARY/n RES_SUMMARY_ENTRY/n RES_SUMMARY_ENTRY_NAME/s
RES_SUMMARY_ENTRY_CURR/8 RES_QP/n RES_QP_ENTRY/n RES_LQPN/4 RES_RQPN/4 RES_RQ_PSN/4 RES_SQ_PSN/4 RES_PATH_MIG_STATE/1
RES_TYPE/1 RES_STATE/1 RES_PID/4 RES_KERN_NAME/s RES_CM_ID/n RES_CM_ID_ENTRY/n RES_PS/4 RES_SRC_ADDR RES_DST_ADDR
RES_CQ/n RES_CQ_ENTRY/n RES_CQE/4 RES_USECNT/8 RES_POLL_CTX/1 RES_MR/n RES_MR_ENTRY/n RES_RKEY/4 RES_LKEY/4 RES_IOVA/8
RES_MRLEN/8 RES_PD/n RES_PD_ENTRY/n RES_LOCAL_DMA_LKEY/4 RES_UNSAFE_GLOBAL_RKEY/4 NDEV_INDEX/4 NDEV_NAME/s DRIVER/n
DRIVER_ENTRY/n DRIVER_STRING/s DRIVER_PRINT_TYPE/1 DRIVER_S32/4 DRIVER_U32/4 DRIVER_S64/8 DRIVER_U64/8 RES_PDN/4
RES_CQN/4 RES_MRN/4 RES_CM_IDN/4 RES_CTXN/4 LINK_TYPE/s SYS_NETNS_MODE/1 DEV_PROTOCOL/s NET_NS_FD/4 CHARDEV_TYPE/s
CHARDEV_NAME/s CHARDEV_ABI/8 CHARDEV/8 UVERBS_DRIVER_ID/4 STAT_MODE/4 STAT_RES/4 STAT_AUTO_MODE_MASK/4 STAT_COUNTER/n
STAT_COUNTER_ENTRY/n STAT_COUNTER_ID/4 STAT_HWCOUNTERS/n STAT_HWCOUNTER_ENTRY/n STAT_HWCOUNTER_ENTRY_NAME/s
STAT_HWCOUNTER_ENTRY_VALUE/8 DEV_DIM/1 RES_RAW RES_CTX/n RES_CTX_ENTRY/n RES_SRQ/n RES_SRQ_ENTRY/n RES_SRQN/4
MIN_RANGE/4 MAX_RANGE/4 SYS_COPY_ON_FORK/1 STAT_HWCOUNTER_INDEX/4 STAT_HWCOUNTER_DYNAMIC/1 SYS_PRIVILEGED_QKEY_MODE/1
DRIVER_DETAILS/1 RES_SUBTYPE/s DEV_TYPE/1 PARENT_NAME/s NAME_ASSIGN_TYPE/1 EVENT_TYPE/1 SYS_MONITOR_MODE/1
STAT_OPCOUNTER_ENABLED/1 FRMR_POOLS/n FRMR_POOL_ENTRY/n FRMR_POOL_KEY/n FRMR_POOL_KEY_ATS/1 FRMR_POOL_KEY_ACCESS_FLAGS/4
FRMR_POOL_KEY_VENDOR_KEY/8 FRMR_POOL_KEY_NUM_DMA_BLOCKS/8 FRMR_POOL_QUEUE_HANDLES/4 FRMR_POOL_MAX_IN_USE/8
FRMR_POOL_IN_USE/8 FRMR_POOLS_AGING_PERIOD/4 FRMR_POOL_PINNED_HANDLES/4 FRMR_POOL_KEY_KERNEL_VENDOR_KEY/8
""".split()]
NUMBERS = {name: number for number, (name, _) in enumerate(ATTRIBUTES)}
SIZES = {"1": "B", "4": "I", "8": "Q"}


def attribute(number: int, payload: bytes, flags: int = 0) -> bytes:
    data = struct.pack("HH", 4 + len(payload), number | flags) + payload
    return data + bytes(-len(data) % 4)


def encode(text: str) -> bytes:
    """ATTRIBUTE=VALUE as it is sent."""
    name, value = text.split("=", 1)
    if name == "dev":
        return encode(f"DEV_INDEX={index_of(value)}")
    number, kind = NUMBERS[name], ATTRIBUTES[NUMBERS[name]][1]
    if value.startswith("0x:"):
        return attribute(number, bytes.fromhex(value[3:]), NESTED if kind == "n" else 0)
    if kind == "n":
        inside = [part for part in value[1:-1].split(",") if part]
        return attribute(number, b"".join(map(encode, inside)), NESTED)
    if kind == "s":
        return attribute(number, value.encode() + b"\0")
    return attribute(number, struct.pack(SIZES[kind], NUMBERS.get(value) or int(value, 0)))


def attributes(data: bytes):
    """Number, whether it says that others are inside, and payload of each."""
    while len(data) >= 4:
        length, number = struct.unpack_from("HH", data)
        yield number & 0x3fff, bool(number & NESTED), data[4:length]
        data = data[(length + 3) & ~3:]


def show(data: bytes, depth: int = 0) -> None:
    for number, flagged, payload in attributes(data):
        name, kind = ATTRIBUTES[number] if number < len(ATTRIBUTES) else (str(number), "")
        if name in ("DEV_INDEX", "UNSPEC"):
            continue
        print("  " * depth + name + ("*" if flagged else ""), end="")
        if kind == "n":
            print()
            show(payload, depth + 1)
        elif kind == "s":
            print("", payload.rstrip(b"\0").decode())
        elif kind and len(payload) == struct.calcsize(SIZES[kind]):
            print("", *struct.unpack(SIZES[kind], payload))
        else:
            print("", payload.hex())


class Failure(Exception):
    """The kernel's answer is an error."""


def failure(message: bytes, flags: int) -> Failure:
    code = -struct.unpack_from("i", message)[0]
    words = ""
    if flags & ACK_TLVS:
        for number, _, payload in attributes(message[20:]):
            if number == NLMSGERR_ATTR_MSG:
                words = ": " + payload.rstrip(b"\0").decode()
    return Failure(errno.errorcode.get(code, str(code)) + words)


def ask(command: str, payload: bytes, dump: bool):
    """The answers: the command that each is of, and its attributes."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as connection:
        connection.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        connection.settimeout(20)
        kind, flags = (CLIENT << 10) + COMMANDS[command], REQUEST | (DUMP if dump else ACK)
        connection.send(struct.pack("IHHII", 16 + len(payload), kind, flags, 1, 0) + payload)
        while True:
            data = connection.recv(65536)
            while data:
                length, kind, flags = struct.unpack_from("IHH", data)
                message, data = data[16:length], data[(length + 3) & ~3:]
                if kind == ERROR or kind == DONE:
                    if struct.unpack_from("i", message)[0]:
                        raise failure(message, flags)
                    return
                yield kind & 0x3ff, message


def index_of(device: str) -> int:
    for _, message in ask("GET", b"", True):
        found = {number: payload for number, _, payload in attributes(message)}
        if found[NUMBERS["DEV_NAME"]].rstrip(b"\0").decode() == device:
            return struct.unpack("I", found[NUMBERS["DEV_INDEX"]])[0]
    raise SystemExit(f"there is no device {device}")


def main(arguments: list[str]) -> int:
    options = [argument for argument in arguments if argument.startswith("--")]
    command, *rest = [argument for argument in arguments if not argument.startswith("--")]
    payload = b"".join(map(encode, rest))
    if "--not-root" in options:
        os.setuid(65534)
    try:
        for op, message in ask(command, payload, "--dump" in options):
            print(next(name for name, number in COMMANDS.items() if number == op))
            show(message, 1)
    except Failure as why:
        print("error", why)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
