# SPDX-License-Identifier: GPL-2.0
"""The tables of an ib_uverbs module: object classes, methods and attributes of ioctl, commands of write.

Read from the module's file, stock or ours: both have the layout of <rdma/uverbs_ioctl.h>, for drivers add tables of their own
to them. One line of text for each entry:

  object CLASS none|idr|fd
  method CLASS METHOD
  attr CLASS METHOD ATTR KIND mandatory|optional ARGUMENTS
    in|out MIN LEN [zero_trailing] [copied] [udata]    data; what may be longer must be zero, or not
    enum COUNT                                         one of several, each on a line of its own: choice CLASS METHOD ATTR N in ...
    idr|fd CLASS read|write|new|destroy                an object
    idrs CLASS read|write MIN MAX                      several objects
    raw_fd
  needs CLASS METHOD                                   the class is there if the device has the method: its offset in ib_device_ops
  write CLASS NUMBER REQUEST RESPONSE [extended] [response] [udata] [needs=METHOD]
"""
import pathlib
import struct
import sys

KINDS = ("na", "in", "out", "idr", "fd", "raw_fd", "enum", "idrs")
ACCESS = ("read", "write", "new", "destroy")
END, OBJECT_START, WRITE, OBJECT_TREE, CHAIN, NEEDS_FUNCTION, NEEDS_METHOD = range(7)
SHT_SYMTAB, SHT_RELA, SHN_UNDEF = 2, 4, 0


class Elf:
    """A relocatable module: the data of its sections, and what their pointers point to."""

    def __init__(self, path: pathlib.Path):
        self.data = path.read_bytes()
        offset, size, count = struct.unpack_from("<Q", self.data, 40)[0], *struct.unpack_from("<HH", self.data, 58)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)]
        self.symbols: list[tuple[str, int, int]] = []
        self.relocations: dict[tuple[int, int], tuple[int, int]] = {}
        for section in self.sections:
            if section[1] == SHT_SYMTAB:
                self._read_symbols(section)
        for section in self.sections:
            if section[1] == SHT_RELA:
                self._read_relocations(section)

    def _read_symbols(self, section: tuple) -> None:
        names = self.sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
            text = self.data[names + name:self.data.index(b"\0", names + name)].decode()
            self.symbols.append((text, index, value))

    def _read_relocations(self, section: tuple) -> None:
        for at in range(section[4], section[4] + section[5], 24):
            offset, info, addend = struct.unpack_from("<QQq", self.data, at)
            self.relocations[section[7], offset] = (info >> 32, addend)

    def symbol(self, matches) -> "Pointer":
        """The place of the one symbol whose name matches."""
        found = [Pointer(self, index, value) for name, index, value in self.symbols if matches(name)]
        if len(found) != 1:
            raise SystemExit(f"there are {len(found)} symbols where one is wanted")
        return found[0]


class Pointer:
    """A place in a module."""

    def __init__(self, elf: Elf, section: int, offset: int, name: str = ""):
        self.elf, self.section, self.offset, self.name = elf, section, offset, name

    def __add__(self, offset: int) -> "Pointer":
        return Pointer(self.elf, self.section, self.offset + offset)

    def read(self, form: str, at: int = 0) -> int:
        return struct.unpack_from("<" + form, self.elf.data, self.elf.sections[self.section][4] + self.offset + at)[0]

    def follow(self, at: int) -> "Pointer | None":
        """What the pointer at an offset points to; with a name alone if that is in another module."""
        relocation = self.elf.relocations.get((self.section, self.offset + at))
        if relocation is None:
            return None
        name, index, value = self.elf.symbols[relocation[0]]
        return Pointer(self.elf, index, value + relocation[1], name)


def _data(spec: Pointer) -> str:
    bits = spec.read("B", 1)
    words = [str(spec.read("H", 4)), str(spec.read("H", 2))]
    return " ".join(words + [name for bit, name in ((1, "zero_trailing"), (2, "copied"), (8, "udata")) if bits & bit])


def _attribute(where: str, attr: Pointer) -> list[str]:
    number, spec = attr.read("H"), attr + 8
    kind = KINDS[spec.read("B")]
    head = f"attr {where} {number} {kind} {'mandatory' if spec.read('B', 1) & 4 else 'optional'}"
    if kind in ("in", "out"):
        return [f"{head} {_data(spec)}"]
    if kind in ("idr", "fd"):
        return [f"{head} {spec.read('H', 2)} {ACCESS[spec.read('B', 4)]}"]
    if kind == "idrs":
        return [f"{head} {spec.read('H', 8)} {ACCESS[spec.read('B', 14)]} {spec.read('H', 10)} {spec.read('H', 12)}"]
    if kind != "enum":
        return [head]
    count, choices = spec.read("B", 2), spec.follow(8)
    lines = [f"{head} {count}"]
    for number_of in range(count):
        choice = choices + 16 * number_of
        lines.append(f"choice {where} {number} {number_of} {KINDS[choice.read('B')]} {_data(choice)}")
    return lines


def _list(table: Pointer, count: int, at: int) -> list[Pointer]:
    pointers = table.follow(at)
    found = [pointers.follow(8 * i) for i in range(count)] if pointers else []
    return [pointer for pointer in found if pointer]


def _object(table: Pointer) -> list[str]:
    number, kind = table.read("H"), "none"
    type_of = table.follow(8)
    if type_of:
        kind = {"uverbs_idr_class": "idr", "uverbs_fd_class": "fd"}[type_of.follow(0).name]
    lines = [f"object {number} {kind}"]
    methods = []
    for method in _list(table, table.read("Q", 16), 24):
        where = f"{number} {method.read('H')}"
        entry = [f"method {where}"]
        attributes = sorted(_list(method, method.read("Q", 8), 16), key=lambda attr: attr.read("H"))
        for attr in attributes:
            entry += _attribute(where, attr)
        methods.append((method.read("H"), entry))
    for _, entry in sorted(methods, key=lambda method: method[0]):
        lines += entry
    return lines


def _merge(entry: Pointer, lines: list[list[str]]) -> None:
    number, command = -1, []
    while entry.read("B") != END:
        kind, is_object = entry.read("B"), entry.read("B", 1) == 1
        if kind == CHAIN:
            _merge(entry.follow(8), lines)
        elif kind == OBJECT_TREE:
            number = entry.read("H", 2)
            lines.append(_object(entry.follow(8)))
        elif kind == OBJECT_START:
            number = entry.read("H", 2)
        elif kind == WRITE:
            command = [_command(number, entry)]
            lines.append(command)
        elif kind in (NEEDS_METHOD, NEEDS_FUNCTION):
            what = entry.read("Q", 8) if kind == NEEDS_METHOD else "function"
            if is_object:
                lines.append([f"needs {number} {what}"])
            else:
                command[0] += f" needs={what}"
        entry += 16


def _command(number: int, entry: Pointer) -> str:
    bits = entry.read("B", 4)
    words = ["write", number, entry.read("H", 2)]
    # Extended commands look at sizes themselves.
    words += [0, 0, "extended"] if bits & 1 else [entry.read("B", 5), entry.read("B", 6)]
    words += [name for bit, name in ((4, "response"), (2, "udata")) if bits & bit and not bits & 1]
    return " ".join(map(str, words))


def tables(path: pathlib.Path) -> list[str]:
    """The lines of a module, in an order of their own."""
    lines: list[list[str]] = []
    root = Elf(path).symbol(lambda name: name == "uverbs_core_api" or name.endswith("4tree11DEFINITIONS"))
    _merge(root, lines)
    unique = {tuple(entry) for entry in lines}
    return [line for entry in sorted(unique, key=_rank) for line in entry]


def _rank(entry: tuple[str, ...]) -> tuple:
    kind, *words = entry[0].split()
    return ("object", "needs", "write").index(kind), [(not word.isdigit(), word.zfill(8)) for word in words]


if __name__ == "__main__":
    print("\n".join(tables(pathlib.Path(sys.argv[1]))))
