"""Control flow: branches, returns, traps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from .errors import malformed, unsupported
from .modifiers import Modifiers
from .records import BlockField, ThreadField, Wait
from .scopes import Label, Targets
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()


@TABLE("bra")
def bra(t: Translator, i: Instruction, m: Modifiers) -> None:
    """A jump; the guard has made it conditional."""
    m.flag("uni")
    label = t.label(t.operand(0))
    _yield(t, i)
    _poll_if_back(t, t.operand(0))
    t.b.branch(label)


def poll(t: Translator) -> None:
    """Looks whether the launch is to end, or the runtime has something to do: a load and a branch."""
    b = t.b
    flag = b.load_relaxed("i32", t.block_field("ptr", BlockField.STOP), 4)
    look, on = b.new_label("look"), b.new_label("on")
    b.branch_if(b.compare("ne", "i32", flag, "0"), look, on, unlikely=True)
    b.label(look)
    b.helper("void", "poll", [("ptr", "%blk"), *t.thread_ids(), ("i32", str(t.instruction.line))])
    b.label(on)


def _poll_if_back(t: Translator, *targets: ast.Operand) -> None:
    """Polls where a jump goes back in the text: every loop has such a jump."""
    bindings = [t.lookup(target.text) for target in targets if isinstance(target, ast.Name)]
    if any(isinstance(binding, Label) and binding.placed for binding in bindings):
        poll(t)


def _yield(t: Translator, i: Instruction) -> None:
    """Lets other threads run where this one waits for what they write."""
    if id(i) in t.plan.yields:
        t.suspend(Wait.SPIN)


@TABLE("brx")
def brx(t: Translator, i: Instruction, m: Modifiers) -> None:
    """brx.idx: a jump to one of a list."""
    if not m.flag("idx"):
        raise unsupported(i)
    m.flag("uni")
    index = t.read(t.operand(0), "u32")
    name = t.operand(1)
    binding = t.lookup(name.text) if isinstance(name, ast.Name) else None
    if not isinstance(binding, Targets) or not binding.labels:
        raise malformed(i, "its list of targets is not declared")
    targets = [ast.Name(label) for label in binding.labels]
    labels = [t.label(target) for target in targets]
    _yield(t, i)
    _poll_if_back(t, *targets)
    cases = " ".join(f"i32 {k}, label %{label}" for k, label in enumerate(labels))
    t.b.terminate(f"switch i32 {index}, label %{labels[-1]} [{cases}]")


@TABLE("ret")
def ret(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Leaves the function."""
    m.flag("uni")
    t.b.branch(t.frame.leave)


@TABLE("exit")
def exit_(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Ends the thread. A function that does so is written into its caller, or is a coroutine and tells its caller."""
    if not t.b.reachable:
        return  # behind a trap
    frame = t.frame
    while frame.caller is not None and frame.caller.scopes:
        frame = frame.caller
    if frame.function.name in t.plan.nested:
        t.b.store("i32", "1", t.thread_field(ThreadField.EXITED))
    elif not frame.function.is_entry:
        raise unsupported(i, "in a function that is not written into the kernel")
    t.b.branch(frame.leave)


@TABLE("trap", "brkpt")
def trap(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Stops the launch with an error."""
    t.b.helper("void", "trap", [("ptr", "%blk"), *t.thread_ids(), ("i32", str(i.line))])
    t.b.terminate("unreachable")


@TABLE("nanosleep", "pmevent")
def nothing(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Hints without effect on results."""
    m.rest.clear()
