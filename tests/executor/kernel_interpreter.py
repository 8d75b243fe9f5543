"""Runs a generated program thread by thread, straight from the PTX ISA: the second opinion on every result.

A thread is a Python generator that suspends at barriers and warp operations. The interpreter is strict where a device
is not: reading a register that was never written, touching a byte that another thread owns, a shared location used by
two threads without a barrier between them, warp operations whose lanes disagree, an endless loop: each is an
:class:`InvalidProgram`, so that a program which runs here has one result on every device.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_ir import CLASSES, Function, Ins, Mem, Program
from kernel_semantics import Undefined, pack32, pure, signed, unpack32, width

_STEPS = 60_000
_GLOBAL, _SHARED, _LOCAL = 1 << 40, 1 << 44, 1 << 45  # generic addresses: where the windows of the spaces begin
_REGION = 24  # bits of an offset within a buffer
_WARP = {"vote", "shfl", "match", "redux"}

Registers = list[Any]
Run = Callable[["_Thread", Registers], None]


class InvalidProgram(Exception):
    """The program does something that PTX leaves open, or does not end."""


@dataclass
class _Wait:
    """What a thread waits for: an instruction, the values of its sources, and the result once it is there."""

    ins: Ins
    values: tuple[Any, ...]
    result: tuple[Any, ...] = ()


@dataclass
class _Memory:
    """Bytes of one buffer, variable or window, and who touched each."""

    name: str
    role: str
    data: bytearray
    owner: dict[int, int] = field(default_factory=dict)
    written: set[int] | None = None  # bytes that have values; None: all


@dataclass
class _Code:
    """A function made ready: per instruction what it is, its guard, and a closure or a target."""

    function: Function
    index: dict[str, int]  # registers and constants to places
    template: Registers
    steps: list[tuple[str, int, int, Any]] = field(default_factory=list)


# ---- memory ----


class _Machine:
    """Memory of one launch, and the launch's constants."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers = [_Memory(b.name, b.role, bytearray(b.data)) for b in program.buffers]
        self.addresses = {b.name: _GLOBAL + (k << _REGION) for k, b in enumerate(program.buffers)}
        for v in program.variables:
            if v.space in ("global", "const"):
                self.addresses[v.name] = _GLOBAL + (len(self.buffers) << _REGION)
                self.buffers.append(_Memory(v.name, "in", bytearray(v.data or bytes(v.size))))
        self.shared_offsets, end = {}, 0
        for v in (*program.variables, *program.kernel.variables):
            if v.space == "shared":
                end = -(-end // v.align) * v.align
                self.shared_offsets[v.name] = end
                end += v.size if not v.extern else program.shared
        self.shared_bytes = end
        self.addresses |= self.shared_offsets
        self.params = {name: self.addresses[name] for name, _ in program.kernel.params if name in self.addresses}
        self.params |= {name: value for name, _, value in program.scalars}
        self.codes = {f.name: _compile(f, self) for f in program.functions}
        self.kernel = _compile(program.kernel, self)


class _Block:
    """Shared memory of a block. `epoch` counts its barriers."""

    def __init__(self, machine: _Machine, index: tuple[int, int, int]) -> None:
        self.machine, self.index = machine, index
        self.shared = _Memory("shared", "shared", bytearray(machine.shared_bytes), written=set())
        self.touched: dict[int, tuple[int, int, str]] = {}  # word: epoch, thread (-1: several), kind
        self.epoch = 0


class _Thread:
    """One thread: identity, local memory, steps so far."""

    def __init__(self, block: _Block, linear: int, number: int) -> None:
        x, y, _ = block.machine.program.block
        self.block, self.linear, self.number = block, linear, number
        self.lane, self.warp = linear & 31, linear >> 5
        self.tid = (linear % x, linear // x % y, linear // (x * y))
        self.locals: dict[str, _Memory] = {}
        self.steps = 0
        self.carry: int | None = None

    def special(self, name: str) -> int:
        program = self.block.machine.program
        base, _, axis = name[1:].partition(".")
        if axis:
            values = {"tid": self.tid, "ntid": program.block, "ctaid": self.block.index, "nctaid": program.grid}[base]
            return values["xyz".index(axis)]
        own = 1 << self.lane
        return {
            "laneid": self.lane, "lanemask_lt": own - 1, "lanemask_le": 2 * own - 1, "lanemask_eq": own,
            "lanemask_gt": 0xFFFFFFFF & ~(2 * own - 1), "lanemask_ge": 0xFFFFFFFF & ~(own - 1), "warpid": self.warp,
        }[base]  # fmt: skip

    def find(self, address: int, size: int, space: str, kind: str) -> tuple[_Memory, int]:
        """The memory and the offset that an address means; checks bounds, alignment and ownership."""
        if address % size:
            raise InvalidProgram(f"misaligned address {address:#x} for {size} bytes")
        if space == "shared" or (not space and _SHARED <= address < _LOCAL):
            memory, offset = self.block.shared, address if space else address - _SHARED
            self._touch(offset, size, kind)
        elif space == "local" or (not space and address >= _LOCAL):
            which, offset = divmod(address if space else address - _LOCAL, 1 << _REGION)
            memory = list(self.locals.values())[which]
        else:
            which, offset = divmod(address - _GLOBAL, 1 << _REGION)
            if not 0 <= which < len(self.block.machine.buffers):
                raise InvalidProgram(f"address {address:#x} lies in no buffer")
            memory = self.block.machine.buffers[which]
            self._own(memory, offset, size, kind)
        if offset + size > len(memory.data):
            raise InvalidProgram(f"{memory.name}: offset {offset} of {len(memory.data)} bytes")
        return memory, offset

    def _own(self, memory: _Memory, offset: int, size: int, kind: str) -> None:
        if memory.role == "in":
            if kind != "load":
                raise InvalidProgram(f"{memory.name} is only read")
        elif memory.role == "atomic":
            if kind != "atomic":
                raise InvalidProgram(f"{memory.name} is for atomics")
        else:
            for byte in range(offset, offset + size):
                if memory.owner.setdefault(byte, self.number) != self.number:
                    raise InvalidProgram(f"{memory.name}: two threads use byte {byte}")

    def _touch(self, offset: int, size: int, kind: str) -> None:
        block = self.block
        for word in range(offset // 4, (offset + size + 3) // 4):
            epoch, thread, before = block.touched.get(word, (-1, -1, ""))
            if epoch != block.epoch:
                block.touched[word] = (block.epoch, self.linear, kind)
            elif before == kind and kind in ("load", "atomic"):
                block.touched[word] = (epoch, thread if thread == self.linear else -1, kind)
            elif thread != self.linear:
                raise InvalidProgram(f"a race for the shared word at {4 * word}")
            else:
                block.touched[word] = (epoch, thread, "store")

    def load(self, address: int, size: int, space: str, kind: str = "load") -> int:
        memory, offset = self.find(address, size, space, kind)
        if memory.written is not None and not all(b in memory.written for b in range(offset, offset + size)):
            raise InvalidProgram(f"{memory.name}: bytes at {offset} were never written")
        return int.from_bytes(memory.data[offset : offset + size], "little")

    def store(self, address: int, value: int, size: int, space: str, kind: str = "store") -> None:
        memory, offset = self.find(address, size, space, kind)
        memory.data[offset : offset + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        if memory.written is not None:
            memory.written.update(range(offset, offset + size))


# ---- code ----


def _compile(function: Function, machine: _Machine) -> _Code:
    code = _Code(function, {}, [])
    labels: dict[str, int] = {}
    for ins in function.body:
        if ins.opcode == "label":
            labels[str(ins.src[0])] = len(code.steps)
        else:
            code.steps.append(("", 0, 0, ins))
    for position, (_, _, _, ins) in enumerate(code.steps):
        guard = _place(code, ins.guard.lstrip("!"), machine) if ins.guard else -1
        kind, action = _step(code, ins, labels, machine)
        code.steps[position] = (kind, guard, int(ins.guard[:1] == "!"), action)
    return code


def _place(code: _Code, operand: str | int, machine: _Machine) -> int:
    """The place of a register or of a constant among the registers."""
    key = operand if isinstance(operand, str) else f"={operand}"
    if key not in code.index:
        code.index[key] = len(code.template)
        value = operand if isinstance(operand, int) else machine.addresses.get(operand)
        if isinstance(operand, str) and any(v.name == operand for v in code.function.variables if v.space == "local"):
            names = [v.name for v in code.function.variables if v.space == "local"]
            value = names.index(operand) << _REGION
        code.template.append(value)
    return code.index[key]


def _step(code: _Code, ins: Ins, labels: dict[str, int], machine: _Machine) -> tuple[str, Any]:
    op = ins.opcode
    if op == "bra":
        return "bra", labels[str(ins.src[0])]
    if op == "brx":
        return "brx", (_place(code, ins.src[0], machine), [labels[str(t)] for t in ins.src[1:]])  # type: ignore[arg-type]
    if op in ("ret", "exit"):
        return op, None
    if op == "call":
        return "call", (ins, [_place(code, s, machine) for s in ins.src[1:]], _targets(code, ins, machine))  # type: ignore[arg-type]
    sources = [_place(code, s.base if isinstance(s, Mem) else s, machine) for s in ins.src]
    targets = _targets(code, ins, machine)
    if op in _WARP or op in ("bar", "barrier"):
        return "wait", (ins, sources, targets)
    if op in ("ld", "st", "atom", "red"):
        return "run", _memory(ins, sources, targets, machine)
    return "run", _plain(ins, sources, targets)


def _targets(code: _Code, ins: Ins, machine: _Machine) -> list[int]:
    return [_place(code, d, machine) for d in ins.dst]


def _plain(ins: Ins, sources: list[int], targets: list[int]) -> Run:
    """Instructions that only compute."""
    op = ins.opcode
    if op in ("membar", "fence", "nanosleep"):
        return lambda t, r: None
    if ins.op == "activemask.b32":
        return lambda t, r: r.__setitem__(targets[0], r[sources[0]])
    if op == "mov" and isinstance(ins.src[0], str) and ins.src[0][0] == "%" and ins.src[0][1] not in CLASSES:
        name = ins.src[0]
        return lambda t, r: r.__setitem__(targets[0], t.special(name))
    if op == "mov" and (len(targets) > 1 or len(sources) > 1):
        return _packing(ins, sources, targets)
    if op == "cvta":
        window = {"shared": _SHARED, "local": _LOCAL}.get(ins.op.split(".")[1], 0)
        return lambda t, r: r.__setitem__(targets[0], r[sources[0]] + window)
    if ins.op.split(".")[-2:-1] == ["cc"] or op in ("addc", "subc"):
        return _carrying(ins, sources, targets)
    if op in ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt") or "approx" in ins.op:
        return lambda t, r: r.__setitem__(targets[0], ("approximate", r[sources[0]]))
    function = pure(ins.op)
    if op == "setp":
        return _predicates(function, sources, targets)
    (target,) = targets
    if len(sources) == 1:
        (a,) = sources
        return lambda t, r: r.__setitem__(target, function(r[a]))
    if len(sources) == 2:
        a, b = sources
        return lambda t, r: r.__setitem__(target, function(r[a], r[b]))
    return lambda t, r: r.__setitem__(target, function(*[r[s] for s in sources]))


def _predicates(function: Callable[..., Any], sources: list[int], targets: list[int]) -> Run:
    def run(t: _Thread, r: Registers) -> None:
        for target, value in zip(targets, function(*[r[s] for s in sources])):
            r[target] = value

    return run


def _packing(ins: Ins, sources: list[int], targets: list[int]) -> Run:
    bits = width(ins.op.split(".")[-1]) // max(len(sources), len(targets))
    mask = (1 << bits) - 1

    def run(t: _Thread, r: Registers) -> None:
        whole = sum(r[s] << (k * bits) for k, s in enumerate(sources))
        for k, target in enumerate(targets):
            r[target] = whole >> (k * bits) & mask if len(targets) > 1 else whole

    return run


def _carrying(ins: Ins, sources: list[int], targets: list[int]) -> Run:
    bits = width(ins.op.split(".")[-1])
    sign = 1 if ins.opcode.startswith("add") else -1

    def run(t: _Thread, r: Registers) -> None:
        if ins.opcode.endswith("c") and t.carry is None:
            raise InvalidProgram("the carry flag was never set")
        total = r[sources[0]] + sign * (r[sources[1]] + (t.carry or 0 if ins.opcode.endswith("c") else 0))
        r[targets[0]] = total & ((1 << bits) - 1)
        t.carry = total >> bits & 1 if ".cc" in ins.op else None

    return run


def _space(parts: list[str]) -> str:
    return next((p for p in parts if p in ("global", "shared", "local", "const", "param")), "")


def _memory(ins: Ins, sources: list[int], targets: list[int], machine: _Machine) -> Run:
    parts = ins.op.split(".")
    space, type_ = _space(parts), parts[-1]
    size = width(type_) // 8
    address = ins.src[0]
    assert isinstance(address, Mem)
    base, offset = sources[0], address.offset
    if space == "param":
        value = machine.params[address.base]
        return lambda t, r: r.__setitem__(targets[0], value)
    if space == "const":
        space = "global"
    if ins.opcode in ("atom", "red"):
        return _atomic(ins, sources, targets, space, type_)

    def load(t: _Thread, r: Registers) -> None:
        at = r[base] + offset
        t.find(at, size * len(targets), space, "load")
        for k, target in enumerate(targets):
            value = t.load(at + k * size, size, space)
            r[target] = signed(value, 8 * size) & 0xFFFFFFFFFFFFFFFF if type_[0] == "s" else value
            if type_[0] == "s":
                r[target] &= (1 << _register_bits(ins.dst[k])) - 1

    def store(t: _Thread, r: Registers) -> None:
        at = r[base] + offset
        t.find(at, size * (len(sources) - 1), space, "store")
        for k, source in enumerate(sources[1:]):
            value = r[source]
            if isinstance(value, tuple):
                value = 0  # an approximate result: its bits are not compared with these
            t.store(at + k * size, value, size, space)

    return load if ins.opcode == "ld" else store


def _register_bits(name: str) -> int:
    return width(CLASSES[name[1]])


def _atomic(ins: Ins, sources: list[int], targets: list[int], space: str, type_: str) -> Run:
    operation = next(
        p for p in ins.op.split(".") if p in ("add", "and", "or", "xor", "exch", "cas", "min", "max", "inc", "dec")
    )
    size = width(type_) // 8
    address = ins.src[0]
    assert isinstance(address, Mem)
    mask = (1 << 8 * size) - 1

    def run(t: _Thread, r: Registers) -> None:
        at, values = r[sources[0]] + address.offset, [r[s] for s in sources[1:]]
        if any(v is None for v in values):
            raise InvalidProgram(f"an operand of {ins.op}")
        old = t.load(at, size, space, "atomic")
        if operation == "cas":
            new = values[1] if old == values[0] & mask else old
        elif operation == "exch":
            new = values[0]
        elif operation == "inc":
            new = 0 if old >= values[0] & mask else old + 1
        elif operation == "dec":
            new = values[0] if old == 0 or old > values[0] & mask else old - 1
        elif type_ == "f32":
            new = pack32(unpack32(old) + unpack32(values[0]))
        else:
            new = pure(f"{operation}.{type_}")(old, values[0])
        t.store(at, new, size, space, "atomic")
        for target in targets:
            r[target] = old

    return run


# ---- running ----


def _run(thread: _Thread, code: _Code, registers: Registers) -> Generator[_Wait, None, bool]:
    """Runs a function; whether the thread goes on behind it (`exit` and a kernel's `ret` end it)."""
    steps, end, position = code.steps, len(code.steps), 0
    thread.locals = {
        v.name: _Memory(v.name, "local", bytearray(v.size), written=set())
        for v in code.function.variables
        if v.space == "local"
    }
    while position < end:
        kind, guard, negated, action = steps[position]
        position += 1
        thread.steps += 1
        if thread.steps > _STEPS:
            raise InvalidProgram("it does not end")
        if guard >= 0 and not registers[guard] ^ negated:
            continue
        if kind == "run":
            action(thread, registers)
        elif kind == "bra":
            position = action
        elif kind == "brx":
            position = action[1][registers[action[0]]]
        elif kind == "call":
            if not (yield from _call(thread, action, registers)):
                return False
        elif kind == "wait":
            ins, sources, targets = action
            wait = _Wait(ins, tuple(registers[s] for s in sources))
            yield wait
            for target, value in zip(targets, wait.result):
                registers[target] = value
        else:
            return bool(kind != "exit")
    return True


def _call(thread: _Thread, action: Any, registers: Registers) -> Generator[_Wait, None, bool]:
    ins, sources, targets = action
    code = thread.block.machine.codes[ins.src[0]]
    frame = list(code.template)
    for name, source in zip(code.function.arguments, sources):
        if registers[source] is None:
            raise InvalidProgram(f"an argument of {code.function.name}")
        if name in code.index:
            frame[code.index[name]] = registers[source]
    outer, thread.locals = thread.locals, {}
    carry, thread.carry = thread.carry, None
    goes_on = yield from _run(thread, code, frame)
    thread.locals, thread.carry = outer, carry
    for name, target in zip(code.function.results, targets):
        registers[target] = frame[code.index[name]] if name in code.index else None
    return goes_on


def _step_thread(running: Generator[_Wait, None, bool], thread: _Thread) -> _Wait | None:
    """Resumes a thread; what it waits for, or None at its end."""
    try:
        return next(running)
    except StopIteration:
        return None
    except (TypeError, struct.error, Undefined) as error:
        raise InvalidProgram(f"thread {thread.number} uses what has no determined value: {error}") from error


def _run_block(machine: _Machine, index: tuple[int, int, int], first: int) -> None:
    block = _Block(machine, index)
    x, y, z = machine.program.block
    threads = [_Thread(block, k, first + k) for k in range(x * y * z)]
    running = [_run(t, machine.kernel, list(machine.kernel.template)) for t in threads]
    waits: list[_Wait | None] = [_step_thread(r, t) for r, t in zip(running, threads)]
    while any(waits):
        try:
            ready = list(_resolve(block, threads, waits))
        except TypeError as error:
            raise InvalidProgram(f"an operand that nothing has written: {error}") from error
        if not ready:
            shown = {w.ins.op for w in waits if w}
            raise InvalidProgram(f"a deadlock at {shown}")
        for k in ready:
            waits[k] = _step_thread(running[k], threads[k])


def _resolve(block: _Block, threads: list[_Thread], waits: list[_Wait | None]) -> Iterator[int]:
    """The threads that may go on: lanes of complete warp operations, else all if they stand at one barrier."""
    found = False
    for start in range(0, len(threads), 32):
        lanes = {t.lane: w for t, w in zip(threads[start:], waits[start : start + 32]) if w}
        done: set[int] = set()
        for lane, wait in lanes.items():
            if lane in done or wait.ins.opcode in ("barrier",) or wait.ins.op.startswith(("bar.sync", "bar.red")):
                continue
            mask = wait.values[-1]
            if mask is None or not mask >> lane & 1:
                raise InvalidProgram(f"lane {lane} is not in the mask of its {wait.ins.op}")
            members = {other: w for other, w in lanes.items() if mask >> other & 1}
            if any(w.ins is not wait.ins or w.values[-1] != mask for w in members.values()):
                continue
            _warp(wait.ins, members)
            done |= members.keys()
            found = True
            yield from (start + other for other in members)
    if found:
        return
    present = [w for w in waits if w]
    if all(w.ins is present[0].ins for w in present):
        _barrier(present)
        block.epoch += 1
        yield from (k for k, w in enumerate(waits) if w)


def _barrier(waits: list[_Wait]) -> None:
    ins = waits[0].ins
    if ".red." not in ins.op:
        return
    values = [w.values[-1] for w in waits]
    operation = ins.op.split(".")[2]
    result = {"popc": sum(values), "and": int(all(values)), "or": int(any(values))}[operation]
    for w in waits:
        w.result = (result,)


def _warp(ins: Ins, members: dict[int, _Wait]) -> None:
    """Performs one operation for the lanes that take part."""
    parts = ins.op.split(".")
    values = {lane: w.values[0] for lane, w in members.items()}
    if ins.op.startswith("bar.warp"):
        return
    if any(v is None for v in values.values()):
        raise InvalidProgram(f"an operand of {ins.op}")
    everyone = sum(1 << lane for lane in members)
    if parts[0] == "shfl":
        _shuffle(parts[2], members, values)
        return
    for lane, wait in members.items():
        if parts[0] == "vote":
            ballot = sum(1 << k for k, v in values.items() if v)
            wait.result = {
                "ballot": (ballot,), "any": (int(ballot != 0),), "all": (int(ballot == everyone),),
                "uni": (int(ballot in (0, everyone)),),
            }[parts[2]]  # fmt: skip
        elif parts[0] == "match":
            same = sum(1 << k for k, v in values.items() if v == values[lane])
            wait.result = (same,) if parts[1] == "any" else (everyone if same == everyone else 0, int(same == everyone))
        else:
            total = None
            for value in values.values():
                total = value if total is None else pure(f"{parts[2]}.{parts[3]}")(total, value)
            wait.result = (total,)


def _shuffle(mode: str, members: dict[int, _Wait], values: dict[int, int]) -> None:
    """The pseudocode of shfl. Reading a lane that does not take part yields a value that must not be used."""
    for lane, wait in members.items():
        b, c = wait.values[1] & 31, wait.values[2]
        segment, clamp = c >> 8 & 31, c & 31
        low = lane & segment
        bound = low | (clamp & ~segment)
        source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | (b & ~segment)}[mode]
        inside = source >= bound if mode == "up" else source <= bound
        wait.result = (values.get(source) if inside else values[lane], int(inside))


def interpret(program: Program) -> list[bytes]:
    """What the buffers hold after a launch.

    :raises InvalidProgram: when the result is not determined.
    """
    machine = _Machine(program)
    gx, gy, gz = program.grid
    x, y, z = program.block
    number = 0
    for bz in range(gz):
        for by in range(gy):
            for bx in range(gx):
                _run_block(machine, (bx, by, bz), number)
                number += x * y * z
    return [bytes(m.data) for m in machine.buffers[: len(program.buffers)]]


def difference(program: Program, got: Sequence[bytes], wanted: Sequence[bytes], loose: bool = False) -> str:
    """Where two results differ first; empty when they do not. `loose`: approximate results may."""
    for buffer, a, b in zip(program.buffers, got, wanted):
        if a == b or (loose and buffer.role == "loose"):
            continue
        where = [k for k, (x, y) in enumerate(zip(a, b)) if x != y]
        word = where[0] // 4 * 4
        return (
            f"{buffer.name}: {len(where)} bytes differ, first at {where[0]}: word {word // 4} is "
            f"{a[word : word + 4][::-1].hex()}, not {b[word : word + 4][::-1].hex()}"
        )
    return ""
