# SPDX-License-Identifier: GPL-2.0
"""Makes modules of User Mode Linux with KASAN loadable.

Such a module may lie above 2 GiB, and clang knows that (-mcmodel=large) but for one thing: a function in `.init.text`
describes its stack frame to KASAN with its own address, of 32 bits. KASAN would print that address in a report of a
fault on the stack; the module is refused because of it. So it is left out.

References: the ELF specification, relocations; mm/kasan/report_generic.c, get_address_stack_frame_info.
"""
import pathlib
import struct

SHT_RELA = 4
R_X86_64_NONE, R_X86_64_32S = 0, 11
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
RELOCATION = struct.Struct("<QQq")


def leave_out_frame_addresses(module: pathlib.Path) -> int:
    """Takes these relocations out of a module's file, and says how many there were."""
    data = bytearray(module.read_bytes())
    header = HEADER.unpack_from(data)
    offset, size, count, names = header[6], header[11], header[12], header[13]
    sections = [SECTION.unpack_from(data, offset + index * size) for index in range(count)]

    def name(section: tuple) -> bytes:
        start = sections[names][4] + section[0]
        return bytes(data[start:data.index(0, start)])

    taken = 0
    for section in sections:
        if section[1] != SHT_RELA or name(sections[section[7]]) != b".init.text":
            continue
        for at in range(section[4], section[4] + section[5], RELOCATION.size):
            where, info, _ = RELOCATION.unpack_from(data, at)
            if info & 0xffffffff == R_X86_64_32S:
                RELOCATION.pack_into(data, at, where, R_X86_64_NONE, 0)
                taken += 1
    if taken:
        module.write_bytes(data)
    return taken
