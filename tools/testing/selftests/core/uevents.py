#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Prints the kernel's notices of devices of RDMA, one a line: action, subsystem, name.

  uevents.py
"""
import socket

NETLINK_KOBJECT_UEVENT = 15


def main() -> None:
    notices = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_KOBJECT_UEVENT)
    notices.bind((0, 1))
    print("listening", flush=True)
    while True:
        # ACTION@PATH, then KEY=VALUE, each with a zero byte at its end.
        lines = notices.recv(65536).decode(errors="replace").split("\0")
        values = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
        if values.get("SUBSYSTEM", "").startswith("infiniband"):
            print(values["ACTION"], values["SUBSYSTEM"], values["DEVPATH"].rsplit("/", 1)[1], flush=True)


main()
