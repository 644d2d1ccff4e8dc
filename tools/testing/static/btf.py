# SPDX-License-Identifier: GPL-2.0
"""Reads the layout of C structures from BTF, the type information in kernel and modules.

Reference: Documentation/bpf/btf.rst in the kernel's source.
"""
import lzma
import pathlib
import struct

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT = range(1, 12)
FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(12, 20)
# How many bytes follow a type's three words: for all, and for each of its `vlen`.
TAIL = {INT: (4, 0), ARRAY: (12, 0), STRUCT: (0, 12), UNION: (0, 12), ENUM: (0, 8), FUNC_PROTO: (0, 8), VAR: (4, 0),
        DATASEC: (0, 12), DECL_TAG: (4, 0), ENUM64: (0, 12)}
MODIFIERS = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)


def section(path: pathlib.Path, name: str) -> bytes:
    """Returns a section of a 64-bit little-endian ELF file, which may be compressed as modules are."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = lzma.decompress(data)
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    for header in headers:
        start = strings + header[0]
        if data[start:data.index(b"\0", start)] == name.encode():
            return data[header[4]:header[4] + header[5]]
    raise ValueError(f"{path} has no section {name}")


class Btf:
    """The types of the kernel, or of a module together with its kernel's (`base`)."""

    def __init__(self, path: pathlib.Path, base: "Btf | None" = None) -> None:
        data = section(path, ".BTF")
        magic, _, _, header, types, types_len, strings, strings_len = struct.unpack_from("<HBBIIIII", data)
        if magic != 0xEB9F:
            raise ValueError(f"{path}: no BTF")
        self.base = base
        self.first = len(base.types) + base.first if base else 1
        self.strings_first = base.strings_first + len(base.strings) if base else 0
        self.strings = data[header + strings:header + strings + strings_len]
        self.types = []
        self.named: dict[str, list[int]] = {}
        self._read(data[header + types:header + types + types_len])

    def _read(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            name, info, size = struct.unpack_from("<III", data, at)
            kind, vlen = info >> 24 & 0x1F, info & 0xFFFF
            fixed, each = TAIL.get(kind, (0, 0))
            members = []
            if kind in (STRUCT, UNION):
                members = list(struct.iter_unpack("<III", data[at + 12:at + 12 + vlen * 12]))
                if name:
                    self.named.setdefault(self.string(name), []).append(self.first + len(self.types))
            self.types.append((kind, size, bool(info >> 31), members))
            at += 12 + fixed + each * vlen

    def string(self, offset: int) -> str:
        if offset < self.strings_first:
            return self.base.string(offset)
        offset -= self.strings_first
        return self.strings[offset:self.strings.index(b"\0", offset)].decode()

    def type(self, number: int) -> tuple:
        return self.types[number - self.first] if number >= self.first else self.base.type(number)

    def layouts(self, name: str) -> list[tuple[int, dict[str, int]]]:
        """Size and field offsets in bytes of each structure of a name. Bit fields are left out."""
        own = [(self.type(number)[1], dict(self.fields(number))) for number in self.named.get(name, [])]
        return own + (self.base.layouts(name) if self.base else [])

    def fields(self, number: int, start: int = 0):
        """All fields with their offsets, those of unnamed members too."""
        _, _, has_bits, members = self.type(number)
        for name, inner, offset in members:
            bits = offset >> 24 if has_bits else 0
            offset = offset & 0xFFFFFF if has_bits else offset
            if name:
                if not bits and offset % 8 == 0:
                    yield self.string(name), start + offset // 8
                continue
            while self.type(inner)[0] in MODIFIERS:
                inner = self.type(inner)[1]
            if self.type(inner)[0] in (STRUCT, UNION):
                yield from self.fields(inner, start + offset // 8)
