#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Prints a folder of sysfs: names, access modes, contents, targets of links; what cannot be read with its error.

  sysfs_dump.py FOLDER...
"""
import os
import pathlib
import stat
import sys

# Times, and what a device's power management counts.
CHANGING = {"power"}


def contents(path: pathlib.Path) -> str:
    try:
        return repr(path.read_bytes().decode(errors="backslashreplace"))
    except OSError as error:
        return os.strerror(error.errno)


def show_table(folder: pathlib.Path, name: str) -> None:
    """Files with numbers for names: neighbours that are equal share a line."""
    numbers = sorted(int(entry.name) for entry in folder.iterdir())
    texts = [f"{folder.joinpath(str(number)).stat().st_mode & 0o7777:04o} {contents(folder / str(number))}" for number in numbers]
    first = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or texts[index] != texts[first] or numbers[index] != numbers[index - 1] + 1:
            print(f"{name}/{numbers[first]}-{numbers[index - 1]}: {texts[first]}")
            first = index


def show(path: pathlib.Path, name: str) -> None:
    info = path.lstat()
    mode = f"{stat.S_IMODE(info.st_mode):04o}"
    if stat.S_ISLNK(info.st_mode):
        print(f"{name} -> {os.readlink(path)}")
        return
    if stat.S_ISREG(info.st_mode):
        print(f"{mode} {name}: {contents(path) if info.st_mode & 0o444 else '(write only)'}")
        return
    print(f"{mode} {name}/")
    entries = sorted(path.iterdir()) if path.name not in CHANGING else []
    if entries and all(entry.name.isdecimal() and entry.is_file() for entry in entries):
        show_table(path, name)
        return
    for entry in entries:
        show(entry, f"{name}/{entry.name}")


for top in sys.argv[1:]:
    show(pathlib.Path(top).resolve(), pathlib.Path(top).name)
