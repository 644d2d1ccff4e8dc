#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Adds an rxe link and deletes it, again and again, by RDMA netlink: one process, where rdma(8) would be two in each round.

  register.py NAME NETDEV ROUNDS

Prints how many different devices there were, by their index.
"""
import sys

from nldev import ask, encode, index_of


def tell(command: str, *attributes: str) -> None:
    list(ask(command, b"".join(map(encode, attributes)), False))


def main(name: str, netdev: str, rounds: str) -> None:
    seen = set()
    for _ in range(int(rounds)):
        tell("NEWLINK", f"DEV_NAME={name}", "LINK_TYPE=rxe", f"NDEV_NAME={netdev}")
        index = index_of(name)
        tell("DELLINK", f"DEV_INDEX={index}")
        seen.add(index)
    print(len(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
