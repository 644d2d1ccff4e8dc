# SPDX-License-Identifier: GPL-2.0
"""What the kernel complains of in its log, and whose fault it is.

complaints() finds all reports in a piece of the log, each with its whole block, says of which kind it is and which modules
stand in its stack. Faults that the stock modules alone make are recorded in tools/testing/stock-faults.tsv, so that ours are
not blamed for them; a report that has one of our modules among its first frames is never taken for one of these.
"""
import bisect
import dataclasses
import fnmatch
import itertools
import pathlib
import re

from .environment import REPO

STOCK_FAULTS = REPO / "tools/testing/stock-faults.tsv"

# The first that matches a line tells the kind of report that begins there.
KINDS = [(kind, re.compile(pattern, re.VERBOSE)) for kind, pattern in (
    ("KCSAN", r"BUG:\ KCSAN:"),
    ("KASAN", r"BUG:\ K(A|F|M)\w+:"),
    ("UBSAN", r"^UBSAN:"),
    ("kmemleak", r"^unreferenced\ object\ 0x|kmemleak:\ .*(disabled|Cannot\ allocate\ a\ kmemleak)"),
    ("lockdep", r"""WARNING:\ (possible\ (circular|recursive|irq)|inconsistent\ lock|.*-safe\ ->|bad\ unlock|held\ lock
        |lock\ held|.*\ still\ has\ locks|Nested\ lock|bad\ contention|suspicious\ RCU|.*irq\ lock\ inversion)
        |\[\ BUG:\ Invalid\ wait\ context|Invalid\ wait\ context\ \]
        |INFO:\ trying\ to\ register\ non-static\ key|BUG:\ key\ .*has\ not\ been\ registered
        |DEBUG_LOCKS_WARN_ON|BUG:\ MAX_LOCK|BUG:\ .*lock\ held|turning\ off\ the\ locking\ correctness
        |BUG:\ .*\ still\ has\ locks\ held|BUG:\ spinlock|BUG:\ rwlock|WARNING:\ kernel/locking/|^Looking\ for\ class"""),
    ("atomic sleep", r"BUG:\ sleeping\ function\ called|BUG:\ scheduling\ while\ atomic|BUG:\ using\ \S+\ in\ preemptible"),
    ("ODEBUG", r"^ODEBUG:"),
    ("refcount", r"^refcount_t:|ref_tracker:\ (?!memory\ allocation)|unregister_netdevice:\ waiting"),
    ("slab", r"""^BUG\ \S+\ \(.*\):|Objects\ remaining|Slab\ cache\ still\ has\ objects|BUG:\ Bad\ page|BUG:\ Bad\ rss
        |BUG:\ non-zero\ pgtables"""),
    ("list", r"list_(add|del)\ corruption"),
    ("hung task", r"INFO:\ task\ .*\ blocked\ (for\ more\ than|in\ I/O)"),
    ("RCU stall", r"detected\ stalls\ on|self-detected\ stall|rcu.*kthread\ starved"),
    ("lockup", r"soft\ lockup|hard\ LOCKUP|BUG:\ workqueue\ lockup"),
    ("Rust panic", r"rust_kernel:\ panicked"),
    ("oops", r"""BUG:\ (unable\ to\ handle|kernel\ NULL|stack)|general\ protection\ fault(?!\ ip:)|\bOops\b|kernel\ BUG\ at|[Uu]nable\ to\ handle
        |^divide\ error|^stack\ segment|double\ fault|Kernel\ panic|Kernel\ mode\ fault"""),
    ("WARN", r"WARNING:|DMA-API:\ .*(device\ driver|exceeded)"),
    ("BUG", r"BUG:"),
    ("allocation", r"page\ allocation\ failure|SLUB:\ Unable\ to\ allocate|vmalloc\ error:"),
    ("out of memory", r"invoked\ oom-killer|Out\ of\ memory:"),
    ("sysfs", r"sysfs:\ cannot\ create\ duplicate|kobject_add_internal\ failed|kobject:\ .*(not\ initialized|is\ not\ init)"),
    ("module", r"Failed\ to\ unload"),
    ("trace", r"^Call\ Trace:"),
)]
# Reports that are no complaint: what fault injection tells when it makes an allocation fail.
WANTED = re.compile(r"FAULT_INJECTION: forcing a failure")
# Kinds that are more exact than the WARN or oops in whose form they come, or that they end in.
EXACT = ("KASAN", "UBSAN", "lockdep", "ODEBUG", "refcount", "slab", "list", "Rust panic", "oops")

PREFIX = re.compile(r"^(<\d+>)?\[ *\d+\.\d+\](\[ *[TC]\d+\])? ?")
# What a worker does is not in its stack when that is of the worker itself.
WORK = re.compile(r"^Workqueue: \S+ ([\w.$]+)(?: \[(\w+)\])?")
FRAME = re.compile(r"(\? )?([\w.$]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)[^\]]*\])?")
# A line of a stack: also what the kernel was entered with.
IN_STACK = re.compile(r"^\s*(\[<|\? |[\w.$]+\+0x|</?(TASK|IRQ|NMI|SOFTIRQ|#|EOE|EOI|ENTRY)|0x[0-9a-f]+$|$)"
                      r"|^(RIP|Code|RSP|R[A-Z0-9]{2}|ORIG_RAX|FS|CS|CR2|DR[0-9]|PKRU):")
RULER = re.compile(r"^(=|-){20,}$")
# Reports that stand between two rulers.
RULED = ("KASAN", "KCSAN")
# The head of the stack of one of two accesses that race; the second may be unknown.
ACCESS = re.compile(r"^(read|write|read-write|assert|race at unknown origin)\b.* to 0x[0-9a-f]+ of \d+ bytes? by ")
# Whoever is interrupted here has nothing to do with what stands above it in a stack.
INTERRUPT = re.compile(r"^(asm_\w+|handle_softirqs|__do_softirq|do_softirq|irq_exit_rcu)$")
# Functions that access memory for their caller.
FOR_CALLER = re.compile(r"^rust_helper_")
CUT = re.compile(r"cut here \]-")
END = re.compile(r"---\[ end trace")
STACK = re.compile(r"Call Trace:|^  backtrace")
ALL_LOCKS = "Showing all locks held"
LONGEST = 250

# What remains in kmemleak's stacks of the code of a module that has gone.
ADDRESS = re.compile(r"^(    )(0x[0-9a-f]{6,})$", re.MULTILINE)

# Functions that report, and those that all locks and allocations pass: they tell nothing of whose fault it is.
REPORTERS = re.compile(r"""^(_*(dump_stack|show_stack|print_|warn|report_|might_|check_|lock_|lockdep_|validate_chain|mark_
    |register_lock|assign_lock|kasan_|asan_|ubsan_|handle_|refcount_|ref_tracker|debug_|slab_|object_err|kmalloc|kmem_cache|kfree
    |kvmalloc|kmemleak|alloc_pages|get_free_pages|should_fail|fail_dump|mutex_|raw_|spin_|rt_|down_|up_|list_|schedule
    |sched_|preempt_|try_to_free|free_to_partial|die|exc_|asm_|nmi_|watchdog|rcu_|trace_|hrtimer|sysvec|tick_|update_process
    |fortify|vmalloc|mempool|page_frag|save_stack|stack_trace|set_track|alloc_object|create_object|xas_|xa_|idr_|ida_))""", re.VERBOSE)
SIGNATURE_FRAMES = 3
# What differs from one report to the next.
VALUES = re.compile(r"\b(0x)?[0-9a-f]{6,}\b|\b\d+\b|(?<=Comm:)\S+")


# What a test allows in one function alone.
IN_FUNCTION = re.compile(r"(.*) in ([\w*]+)\(\)")


@dataclasses.dataclass
class Complaint:
    """One report of the kernel."""

    kind: str
    lines: list[str]
    # Of our modules, those whose code stands in its stack.
    ours: tuple[str, ...] = ()
    # Kind and first functions, "function[module]": the same for the same fault.
    signature: str = ""
    times: int = 1
    # Its first line, without the time.
    first: str = ""

    @property
    def title(self) -> str:
        where = f"in our {' '.join(self.ours)}" if self.ours else "none of our modules in its stack"
        return f"{self.kind}, {where}" + (f", {self.times} times" if self.times > 1 else "") + f": {self.signature}"


def _plain(line: str) -> str:
    return PREFIX.sub("", line)


def _kind(line: str) -> str | None:
    if "Modules linked in" in line:
        return None
    return next((kind for kind, pattern in KINDS if pattern.search(line)), None)


def frames(lines: list[str]) -> list[tuple[str, str]]:
    """Function and module ("" for the kernel itself) of each frame that the kernel is sure of."""
    found = []
    for line in lines:
        if work := WORK.search(line):
            found.append((work[1], work[2] or ""))
        elif "Modules linked in" not in line:
            found += [(function, module) for doubt, function, module in FRAME.findall(line) if not doubt]
    return found


def _own_stack(lines: list[str]) -> list[tuple[str, str]]:
    """The frames of the task that is reported: where it was, and its stack."""
    stack = next((i for i, line in enumerate(lines) if STACK.search(line)), None)
    if stack is None:
        return frames(lines)
    return frames([line for line in lines[:stack] if line.startswith(("RIP: 0010:", "Workqueue:"))] + lines[stack:])


def racing(lines: list[str]) -> list[list[tuple[str, str]]]:
    """The stack of each access that KCSAN reports, down to an interrupt."""
    stacks: list[list[tuple[str, str]]] = []
    inside = False
    for line in lines:
        if ACCESS.match(line):
            stacks.append([])
            inside = True
        elif not line.strip():
            inside = False
        elif inside and (found := frames([line])):
            inside = not INTERRUPT.match(found[0][0])
            stacks[-1] += found if inside else []
    return stacks


def _race_signature(lines: list[str]) -> str:
    """Both functions that access the memory, in an order that does not depend on who came first."""
    names = []
    for stack in racing(lines):
        function, module = next((frame for frame in stack if not FOR_CALLER.match(frame[0])), ("", ""))
        names.append(f"{function.split('.')[0]}[{module}]" if module else function.split(".")[0])
    return f"KCSAN: {' / '.join(sorted(names))}" + (" / somebody" if len(names) == 1 else "")


def _signature(kind: str, lines: list[str]) -> str:
    if kind == "KCSAN":
        return _race_signature(lines)
    told = [(function, module) for function, module in _own_stack(lines) if module or not REPORTERS.match(function)]
    names = [f"{function.split('.')[0]}[{module}]" if module else function for function, module in told]
    # A worker's function may stand there twice: as its work and in its stack.
    names = [name for name, _ in itertools.groupby(names)][:SIGNATURE_FRAMES]
    # Without a stack, what it says.
    return f"{kind}: {' < '.join(names) or VALUES.sub('#', lines[0])}"


def _end_of(lines: list[str], start: int, kind: str) -> int:
    """Where the report ends that begins at `start`: the index behind its last line."""
    ruled = kind in RULED
    cut = any(CUT.search(line) for line in lines[max(0, start - 3):start])
    seen_stack = in_stack = bool(STACK.search(lines[start]))
    for index in range(start + 1, min(len(lines), start + LONGEST)):
        line = lines[index]
        if END.search(line):
            return index + 1
        cut = cut or bool(CUT.search(line)) and not seen_stack
        if ruled and RULER.match(line):
            return index + 1
        if STACK.search(line):
            seen_stack = in_stack = True
        elif in_stack and not IN_STACK.search(line):
            in_stack = False
            if ALL_LOCKS in line:
                return next((i + 1 for i in range(index, min(len(lines), index + LONGEST)) if RULER.match(lines[i])), index)
            if not cut and not ruled:
                return index
        elif seen_stack and not in_stack and not ruled and (CUT.search(line) or RULER.match(line) or _kind(line)):
            return index
    return min(len(lines), start + LONGEST)


def _begin_of(lines: list[str], start: int, consumed: int) -> int:
    """Where the report begins that is known by its line `start`: at the ruler or cut before it."""
    first = max(consumed, start - 3)
    return next((index for index in range(first, start) if RULER.match(lines[index]) or CUT.search(lines[index])), start)


def complaints(messages: str, ours: set[str] | frozenset[str] = frozenset()) -> list[Complaint]:
    """All reports in a piece of the kernel's log, in their order. `ours` are the names of our loaded modules."""
    raw = messages.splitlines()
    lines = [_plain(line) for line in raw]
    found: list[Complaint] = []
    index = consumed = 0
    while index < len(lines):
        wanted = WANTED.search(lines[index])
        kind = _kind(lines[index])
        if not wanted and not kind:
            index += 1
            continue
        end = _end_of(lines, index, kind or "")
        if not wanted:
            inside = lines[index:end]
            if kind in ("WARN", "BUG", "oops", "list"):
                told = [_kind(line) for line in inside]
                kind = next((name for name in told if name in EXACT), kind)
            found.append(_complaint(kind, raw[_begin_of(lines, index, consumed):end], inside, ours))
        index = consumed = end
    return _joined(found)


def _complaint(kind: str, raw: list[str], lines: list[str], ours: set[str] | frozenset[str]) -> Complaint:
    told = itertools.chain(*racing(lines)) if kind == "KCSAN" else frames(lines)
    there = {module for _, module in told}
    return Complaint(kind, raw, tuple(sorted(there & ours)), _signature(kind, lines), first=lines[0])


def allowed(complaint: Complaint, patterns: tuple[str, ...] | list[str]) -> bool:
    """Whether a test says that a report may come: `# allows: PATTERN`, of its first line, as the shell's patterns are, or
    `# allows: PATTERN in FUNCTION()`, where the function, a pattern too, stands in its stack.
    """
    for pattern in patterns:
        there = IN_FUNCTION.fullmatch(pattern)
        if fnmatch.fnmatchcase(complaint.first, there[1] if there else pattern) and (
                not there or fnmatch.filter([function.split(".")[0] for function, _ in frames(complaint.lines)], there[2])):
            return True
    return False


def _joined(found: list[Complaint]) -> list[Complaint]:
    """Each signature once, with its number: the first report of it."""
    by_signature: dict[str, Complaint] = {}
    for complaint in found:
        if complaint.signature in by_signature:
            by_signature[complaint.signature].times += complaint.times
        else:
            by_signature[complaint.signature] = complaint
    return list(by_signature.values())


def allocated(leak: list[str]) -> int:
    """When an object of kmemleak's list was allocated, in jiffies."""
    found = re.search(r"jiffies (\d+)", "\n".join(leak))
    return int(found[1]) if found else 0


def leaks(listing: str, ours: set[str] | frozenset[str] = frozenset(), since: int = 0) -> list[Complaint]:
    """What /sys/kernel/debug/kmemleak lists, by the place of the allocation; what is older than `since` (jiffies) is left out."""
    objects: list[list[str]] = []
    for line in listing.splitlines():
        if line.startswith("unreferenced object"):
            objects.append([])
        if objects:
            objects[-1].append(line)
    return _joined([_complaint("kmemleak", lines, lines, ours) for lines in objects if allocated(lines) >= since])


def named(listing: str, symbols: str) -> str:
    """The listing with the functions of modules that have gone, from a copy of /proc/kallsyms."""
    table = sorted((int(address, 16), name, module) for address, _, name, module in
                   (line.split() for line in symbols.splitlines() if line.count("[") == 1))
    starts = [start for start, _, _ in table]

    def name_of(match: re.Match) -> str:
        index = bisect.bisect_right(starts, int(match[2], 16)) - 1
        if index < 0:
            return match[0]
        start, name, module = table[index]
        return f"{match[1]}{name}+{int(match[2], 16) - start:#x}/0x0 {module}"

    return ADDRESS.sub(name_of, listing)


@dataclasses.dataclass(frozen=True)
class StockFault:
    """A fault that was seen with stock modules only."""

    kernel: str
    test: str
    signature: str
    source: str


def stock_faults(path: pathlib.Path = STOCK_FAULTS) -> list[StockFault]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [StockFault(*line.split("\t")) for line in lines if line and not line.startswith("#")]


def of_others(complaint: Complaint) -> bool:
    """A race in which no code of ours takes part, nor anything that it called: there are many in the kernel."""
    return complaint.kind == "KCSAN" and not complaint.ours


def known(complaint: Complaint, kernel: str, test: str, ours: set[str] | frozenset[str],
          faults: list[StockFault]) -> StockFault | None:
    """The record that says that the stock modules do this too. None if one of our modules stands in the signature; a complaint
    without a stack is known in the test alone in which it was seen.
    """
    if any(f"[{module}]" in complaint.signature for module in ours):
        return None
    has_stack = " < " in complaint.signature
    return next((fault for fault in faults if fault.kernel == kernel and fault.signature == complaint.signature and
                 (has_stack or fault.test == test)), None)


def record(complaint: Complaint, kernel: str, test: str, source: str, path: pathlib.Path = STOCK_FAULTS) -> None:
    """Notes a fault of stock's."""
    with open(path, "a") as out:
        out.write(f"{kernel}\t{test}\t{complaint.signature}\t{source}\n")
