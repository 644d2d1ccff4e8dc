# SPDX-License-Identifier: GPL-2.0
"""Watches the kernel of a guest while test programs run in it: its log, its checkers, its memory."""
import dataclasses
import time

from . import kernellog
from .environment import KERNEL
from .guest import Guest
from .kernellog import Complaint

# After these a kernel is not what it was: what it says of memory then would blame the innocent.
DEADLY = {"KASAN", "list", "slab", "hung task", "RCU stall", "lockup", "Rust panic", "oops"}

KMEMLEAK = "/sys/kernel/debug/kmemleak"
MARK = f"cd /proc; echo [0-9]* > /run/programs; echo '{{marker}}' > /dev/kmsg; [ ! -e {KMEMLEAK} ] || awk '/^jiffies/ {{{{ print $2; exit }}}}' /proc/timer_list"
LOG = "dmesg | sed -n '/{marker}/,$p'"
# The programs that were not there before and are still: none of them goes on. (Threads of the kernel are children of the second process.)
PROGRAMS_LEFT = r"""
before=" $(cat /run/programs) 2 $$ $PPID "
left() {
	cat /proc/[0-9]*/stat 2> /dev/null | awk -v shell=$$ -v before="$before" '
	{ pid = $1; sub(/.*\) /, "") }
	$1 != "Z" && $2 != 2 && $2 != shell && !index(before, " " pid " ") { print pid }' > /run/left
	[ -s /run/left ]
}
# What ends by itself within a second is not left.
left && sleep 1 && left && while read -r pid; do
	echo "$pid: $(tr '\0' ' ' < /proc/$pid/cmdline)" && kill -KILL $pid
done 2> /dev/null < /run/left
"""
LOCKDEP_OFF = "grep -qs 'debug_locks: *0' /proc/lockdep_stats"
# Modules keep alive what only they know: they go first. What their addresses meant is kept.
LEAKS = f"""
f={KMEMLEAK}
[ -e $f ] || exit 77
grep '\\[' /proc/kallsyms > /run/kallsyms
. /ferroband/selftests/lib.sh
for round in 1 2; do
	for file in /lib/modules/$(uname -r)/updates/*.ko; do rmmod "$(basename "$file" .ko)"; done
	modules_unload
done > /dev/null 2>&1
sleep 6
echo scan > $f && echo scan > $f && cat $f
"""
# An object that has not been there for long is not looked at, so two looks must be some seconds apart.
LEAKS_SECONDS = 240


@dataclasses.dataclass
class Verdict:
    """What is to be said of a piece of the kernel's log."""

    faults: list[str]
    notes: list[str]
    kinds: set[str]

    @property
    def healthy(self) -> bool:
        """Whether the machine may go on: lockdep and others fall silent after their first report."""
        return not self.kinds and not self.faults


class Watch:
    """Of one guest, from its boot to its end."""

    def __init__(self, machine: Guest, ours: set[str], test_modules: set[str], record: bool):
        """`ours` are the modules that stand for stock ones. With `record`, and none of these, faults are recorded."""
        self.machine = machine
        self.ours = ours
        self.modules = ours | test_modules
        self.recording = record and not ours
        self.began: list[tuple[int, str]] = []
        self.marker = ""

    def begin(self, name: str) -> None:
        """A test program is about to run."""
        # Without slashes: sed looks for it.
        self.marker = f"ferroband: {name.replace('/', ' ')} {time.monotonic_ns()}"
        _, answer = self.machine.run(MARK.format(marker=self.marker), timeout=60)
        if answer.strip().isdigit():
            self.began.append((int(answer), name))

    def end(self, name: str, provokes: tuple[str, ...], allows: tuple[str, ...]) -> Verdict:
        """It has ended: what did the kernel say? `provokes` are kinds of complaints that must be there, `allows` patterns
        of the first lines of those that may be."""
        _, output = self.machine.run(LOG.format(marker=self.marker), timeout=120)
        messages = output.decode(errors="replace")
        found = kernellog.complaints(messages, self.modules)
        if "kmemleak" in provokes:
            found += self._leaks()[1]
        verdict = self._judge(found, name, provokes, allows)
        _, left = self.machine.run(PROGRAMS_LEFT, timeout=60)
        verdict.faults += [f"a program is left: {line}" for line in left.decode(errors="replace").splitlines()]
        if self.marker not in messages:
            verdict.faults.append("the kernel's log was cleared or is longer than its buffer: what it said is lost")
        # Lockdep goes off with a report of its own, and when another report says that memory may be corrupt.
        if not verdict.kinds & {"lockdep", *DEADLY} and self.machine.run(LOCKDEP_OFF, timeout=60)[0] == 0:
            verdict.faults.append("lockdep has switched itself off without a report, so locks were not checked")
        return verdict

    def console(self, name: str) -> Verdict:
        """The same when the guest answers no more: its console."""
        text = self.machine.console.read_text(errors="replace") if self.machine.console.exists() else ""
        return self._judge(kernellog.complaints(text.rpartition(self.marker)[2], self.modules), name, (), ())

    def leaks(self, name: str) -> tuple[bool, Verdict]:
        """What kmemleak finds after all modules have gone; whether the kernel has it."""
        there, found = self._leaks()
        for complaint in found:
            complaint.lines.append(f"  allocated in: {self._when(complaint)}")
        return there, self._judge(found, name, (), ())

    def _leaks(self) -> tuple[bool, list[Complaint]]:
        status, output = self.machine.run(LEAKS, timeout=LEAKS_SECONDS)
        listing = output.decode(errors="replace")
        if status == 77:
            return False, []
        if status != 0:
            return True, [Complaint("kmemleak", listing.splitlines()[-20:], signature=f"kmemleak: no scan, status {status}")]
        if kernellog.ADDRESS.search(listing):
            _, symbols = self.machine.run("cat /run/kallsyms", timeout=120)
            listing = kernellog.named(listing, symbols.decode(errors="replace"))
        # What was allocated before the first test is no matter of the modules, which nobody had loaded.
        return True, kernellog.leaks(listing, self.modules, since=self.began[0][0] if self.began else 0)

    def _when(self, complaint: Complaint) -> str:
        """The test in which an object was allocated."""
        at = kernellog.allocated(complaint.lines)
        return next((name for began, name in reversed(self.began) if began <= at), "the time before the first test")

    def _judge(self, found: list[Complaint], name: str, provokes: tuple[str, ...], allows: tuple[str, ...]) -> Verdict:
        verdict = Verdict([], [], {complaint.kind for complaint in found if not kernellog.of_others(complaint)})
        recorded = kernellog.stock_faults()
        for complaint in found:
            short = complaint.kind.replace(" ", "-")
            if short in provokes or kernellog.allowed(complaint, allows):
                verdict.notes.append(f"as it should: {complaint.title}")
            elif known := kernellog.known(complaint, KERNEL, name, self.ours, recorded):
                verdict.notes.append(f"a fault of stock's ({known.source}): {complaint.title}")
            elif self.recording:
                kernellog.record(complaint, KERNEL, name, time.strftime("seen on %Y-%m-%d with stock modules only"))
                verdict.notes.append(f"recorded: {complaint.title}")
            elif kernellog.of_others(complaint):
                verdict.notes.append(f"no race of ours: {complaint.title}")
            else:
                verdict.faults += [f"the kernel complained: {complaint.title}", *complaint.lines]
        for missing in set(provokes) - {kind.replace(" ", "-") for kind in verdict.kinds}:
            verdict.faults.append(f"the kernel did not complain of {missing}, which was provoked")
        return verdict
