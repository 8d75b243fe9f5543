"""The vector path, third step: what each register holds across the lanes of a strand.

A lattice per register, found by a fixed point over all definitions: the same value in each lane (`UNIFORM`), a base
plus a constant times the lane (`Affine`), such a 32-bit value widened to 64 bits and scaled (`Widened`: the widening
may wrap inside of the strand, which is tested where it is used), or anything (`VARYING`).

Where lanes part, a register whose values differ between the paths is `VARYING` although each value is the same in all
lanes that wrote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Union

from interop.ptx import Instruction, ast

from .analysis import names_in
from .vector_flatten import Unsuitable
from .vector_flow import Flow, destinations


@dataclass(frozen=True)
class Affine:
    """base + stride * lane, modulo two to the width of the register. A stride of 0 is a uniform value.

    ``zeros`` of the base's low bits are known to be zero; it does not count when kinds are compared.
    """

    stride: int
    zeros: int = field(default=0, compare=False)

    def contained(self, lanes: int) -> int:
        """How many low bits the lanes' parts take, if adding them to the base carries nowhere; 0 where that is not
        known, and of a uniform value."""
        bits = (self.stride * (lanes - 1)).bit_length() if self.stride > 0 else 0
        return bits if bits <= min(self.zeros, 31) else 0  # the sign stays out of it


@dataclass(frozen=True)
class Widened:
    """offset + scale * extend(base + stride * lane): 64 bits, of a 32-bit affine value."""

    scale: int
    stride: int
    signed: bool


@dataclass(frozen=True)
class Varying:
    """A value of its own in each lane."""


Kind = Union[Affine, Widened, Varying]
UNIFORM = Affine(0)
VARYING = Varying()


def join(a: Kind | None, b: Kind) -> Kind:
    """What holds both."""
    if isinstance(a, Affine) and isinstance(b, Affine) and a == b:
        return a if a.zeros <= b.zeros else b
    return b if a is None or a == b else VARYING


def zeros_of(value: int) -> int:
    """How many low bits of a constant are zero."""
    return (value & -value).bit_length() - 1 if value else _ALL


def add(a: Kind, b: Kind, sign: int = 1) -> Kind:
    """The kind of a sum, or with `sign` -1 of a difference, of integers."""
    if isinstance(a, Affine) and isinstance(b, Affine):
        return Affine(a.stride + sign * b.stride, min(a.zeros, b.zeros))
    if isinstance(a, Widened) and b == UNIFORM:
        return a
    if a == UNIFORM and isinstance(b, Widened):
        return Widened(sign * b.scale, b.stride, b.signed)
    return VARYING


def scaled(a: Kind, factor: int) -> Kind:
    """The kind of a product with a constant."""
    if factor == 0:
        return Affine(0, _ALL)
    if isinstance(a, Affine):
        return Affine(a.stride * factor, min(a.zeros + zeros_of(factor), _ALL))
    return Widened(a.scale * factor, a.stride, a.signed) if isinstance(a, Widened) else VARYING


def extended(a: Kind, signed: bool, lanes: int) -> Kind:
    """The kind of a 32-bit value as 64 bits."""
    if isinstance(a, Affine) and (a == UNIFORM or a.contained(lanes)):
        return Affine(a.stride, min(a.zeros, 32))
    return Widened(1, a.stride, signed) if isinstance(a, Affine) else VARYING


def truncated(a: Kind) -> Kind:
    """The kind of the low half of 64 bits."""
    return Affine(a.scale * a.stride) if isinstance(a, Widened) else a


def bitwise(operation: str, a: Kind, constant: int, lanes: int) -> Kind | None:
    """The kind of and, or, xor with a constant: where the lanes' parts lie in bits of their own, the base alone may be
    changed, or the lanes' parts go."""
    if not isinstance(a, Affine):
        return None
    taken = (1 << a.contained(lanes)) - 1
    if a.stride:
        if not taken:
            return None
        taken &= -1 << zeros_of(a.stride)
    if operation == "and":
        if constant & taken == 0:
            return Affine(0, max(a.zeros, zeros_of(constant)))
        return a if constant & taken == taken else None
    return Affine(a.stride, min(a.zeros, zeros_of(constant))) if constant & taken == 0 else None


def shifted_right(a: Kind, count: int, lanes: int) -> Kind | None:
    """The kind of a value shifted right by a constant."""
    if not isinstance(a, Affine):
        return None
    left = max(a.zeros - count, 0) if a.zeros < _ALL else _ALL
    if a == UNIFORM:
        return Affine(0, left)
    taken = a.contained(lanes)
    if not taken:
        return None
    if taken <= count:
        return Affine(0, left)
    return Affine(a.stride >> count, left) if zeros_of(a.stride) >= count else None


_ALL = 64  # low bits that are zero in a value that is zero
_INTEGER = re.compile(r"[bus](16|32|64)")
_UNIFORM_RESULTS = {"vote", "redux", "activemask"}
_STRONG = {"volatile", "relaxed", "acquire", "mmio"}
_BY_LANE = {"%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"}


@dataclass
class Kinds:
    """The result of the analysis.

    :ivar whole: rows of the block are whole strands.
    :ivar registers: by number. What was never written is uniform.
    :ivar parting: blocks at whose end lanes part.
    """

    flow: Flow
    forced: set[int]
    lanes: int
    whole: bool
    registers: dict[int, Kind] = field(default_factory=dict)
    parting: set[int] = field(default_factory=set)
    regions: list[set[int]] = field(default_factory=list)

    def of(self, operand: ast.Operand) -> Kind | None:
        """The kind of an operand; None while nothing is known of it."""
        if isinstance(operand, ast.Name):
            number = self.flow.numbers.get(operand.text)
            if number is not None:
                if number in self.forced:
                    return VARYING
                if number not in self.flow.def_sites:
                    return UNIFORM
                return self.registers.get(number)
            return self._named(operand.text)
        if isinstance(operand, ast.Integer):
            return Affine(0, zeros_of(operand.value))
        if isinstance(operand, ast.Float):
            return UNIFORM
        if isinstance(operand, ast.Offset):
            return self.of(operand.base)
        return self._together([self.of(ast.Name(name)) for name in names_in(operand)])

    def _named(self, name: str) -> Kind:
        if name in ("%tid.x", "%laneid"):  # a strand begins where its first lane's number is a multiple of its lanes
            return Affine(1, zeros_of(self.lanes))
        if name == "%ntid.x" and self.whole:
            return Affine(0, zeros_of(self.lanes))
        if name in _BY_LANE:
            return VARYING
        variable = self.flow.flat.variables.get(name)
        # Local memory is a piece for each lane, one behind the other.
        if variable is not None and variable.space in ("local", "param"):
            return UNIFORM if variable in self.flow.flat.function.params else Affine(local_stride(variable.size))
        return UNIFORM

    @staticmethod
    def _together(kinds: list[Kind | None]) -> Kind | None:
        if any(k is not None and k != UNIFORM for k in kinds):
            return VARYING
        return None if None in kinds else UNIFORM

    def constant(self, operand: ast.Operand) -> int | None:
        """The value of an operand that is an integer constant, or a register that is only ever set to one."""
        if isinstance(operand, ast.Integer):
            return operand.value
        if isinstance(operand, ast.Name):
            found = self.flow.definitions.get(self.flow.numbers.get(operand.text, -1), ())
            if len(found) == 1 and found[0].opcode == "mov" and found[0].guard is None and len(found[0].operands) == 2:
                source = found[0].operands[1]
                if isinstance(source, ast.Integer):
                    return source.value
        return None


def local_stride(size: int) -> int:
    """Bytes from one lane's piece of a local variable to the next lane's: every alignment holds in each."""
    return -(-max(size, 1) // 16) * 16


def analyse(flow: Flow, forced: set[int], lanes: int, whole: bool) -> Kinds:
    """The kinds of all registers. `forced` are taken as varying."""
    kinds = Kinds(flow, set(forced), lanes, whole)
    while True:
        kinds.registers = {}
        _fixed_point(kinds)
        parting = {
            block.index
            for block in flow.blocks
            if block.terminator is not None and len(block.successors) > 1 and _parts(kinds, block.terminator)
        }
        if parting == kinds.parting:
            break
        for index in sorted(parting - kinds.parting):
            _separate(kinds, index)
        kinds.parting |= parting
    kinds.regions = [_region(flow, index) for index in sorted(kinds.parting)]
    return kinds


def _parts(kinds: Kinds, last: Instruction) -> bool:
    deciding: ast.Operand | None = ast.Name(last.guard.register) if last.guard else None
    if last.opcode == "brx":
        if last.guard is not None:
            raise Unsuitable("a brx.idx under a predicate")
        deciding = last.operands[0]
    return deciding is not None and kinds.of(deciding) not in (None, UNIFORM)


def _arms(flow: Flow, index: int) -> list[set[int]]:
    join_ = flow.ipdom[index]
    return [flow.reach(successor, join_) for successor in flow.blocks[index].successors]


def _region(flow: Flow, index: int) -> set[int]:
    """The blocks between a branch where lanes part and the block where they meet. Lanes that only leave make none."""
    if len(flow.staying(index)) == 1 and flow.ipdom[index] == flow.staying(index)[0]:
        return set()
    return set().union(*_arms(flow, index))


def _separate(kinds: Kinds, index: int) -> None:
    """Registers that paths from the branch `index` may leave with different values."""
    flow = kinds.flow
    arms = _arms(flow, index)
    if not _region(flow, index):
        return
    meeting = flow.ipdom[index]
    inside = set().union(*arms)
    shared = {k for k in inside if sum(k in arm for arm in arms) > 1}
    live_shared = flow.blocks[meeting].live_in if meeting < flow.exit else 0
    for k in shared:
        live_shared |= flow.blocks[k].live_in
    live = []
    for arm in arms:
        bits = 0
        for k in arm:
            bits |= flow.blocks[k].live_in
        live.append(bits)
    for number, sites in flow.def_sites.items():
        written = [any(s in arm for s in sites) for arm in arms]
        if not any(written):
            continue
        if len(sites) == 1 and not flow.blocks[sites[0]].cyclic:
            continue
        crossing = live_shared >> number & 1 or any(
            written[a] and live[b] >> number & 1 for a in range(len(arms)) for b in range(len(arms)) if a != b
        )
        if crossing:
            kinds.forced.add(number)


# ---- the fixed point ----


def _fixed_point(kinds: Kinds) -> None:
    flow = kinds.flow
    instructions = [i for block in flow.blocks for i in block.instructions if destinations(i)]
    users: dict[int, list[int]] = {}
    targets: list[list[int]] = []
    for position, i in enumerate(instructions):
        numbers = [flow.numbers[n] for n in names_in(i.operands[0]) if n in flow.numbers]
        targets.append(numbers)
        sources = [n for o in i.operands[1:] for n in names_in(o)]
        if i.guard is not None:
            sources.append(i.guard.register)
        for name in sources:
            number = flow.numbers.get(name)
            if number is not None:
                users.setdefault(number, []).append(position)
    pending = list(range(len(instructions) - 1, -1, -1))
    waiting = set(pending)
    while pending:
        position = pending.pop()
        waiting.discard(position)
        kind = _result(kinds, instructions[position])
        if kind is None:
            continue
        for number in targets[position]:
            if number in kinds.forced:
                continue
            old = kinds.registers.get(number)
            new = join(old, kind)
            if new != old or _zeros(new) != _zeros(old):
                kinds.registers[number] = new
                for user in users.get(number, ()):
                    if user not in waiting:
                        waiting.add(user)
                        pending.append(user)


def _zeros(kind: Kind | None) -> int:
    return kind.zeros if isinstance(kind, Affine) else 0


def _result(kinds: Kinds, i: Instruction) -> Kind | None:
    guard = kinds.of(ast.Name(i.guard.register)) if i.guard else UNIFORM
    kind = _computed(kinds, i)
    if guard is None or kind is None:
        return None
    return kind if guard == UNIFORM else VARYING


def _computed(kinds: Kinds, i: Instruction) -> Kind | None:
    if i.opcode in _UNIFORM_RESULTS:
        return UNIFORM
    if i.opcode in ("ld", "ldu"):
        return _loaded(kinds, i)
    if i.opcode in ("atom", "shfl", "match", "elect", "mma", "ldmatrix", "wmma", "movmatrix", "addc", "subc", "madc"):
        return VARYING
    if i.has("cc"):
        return VARYING
    sources = [kinds.of(o) for o in i.operands[1:]]
    if None in sources:
        # Something varying makes the result so, whatever the rest is; that keeps the fixed point monotone.
        return None
    known = [k for k in sources if k is not None]
    special = _integer(kinds, i, known)
    if special is not None:
        return special
    return UNIFORM if all(k == UNIFORM for k in known) else VARYING


def _loaded(kinds: Kinds, i: Instruction) -> Kind | None:
    address = i.operands[1]
    if not isinstance(address, ast.Address):
        return VARYING
    kind = kinds.of(address.base)
    return kind if kind in (None, UNIFORM) else VARYING


def _integer(kinds: Kinds, i: Instruction, sources: list[Kind]) -> Kind | None:
    """The rules of integer instructions that keep a lane's stride; None for any other."""
    types = [m for m in i.modifiers if _INTEGER.fullmatch(m)]
    simple = not isinstance(i.operands[0], (ast.Vector, ast.Pair)) and not any(
        isinstance(o, ast.Vector) for o in i.operands
    )
    if not types or not simple or i.has("sat", "hi", "f32", "f64", "f16"):
        return None
    bits = int(types[-1][1:])
    if i.opcode in ("mov", "cvta"):
        return sources[0]
    if i.opcode in ("add", "sub") and len(sources) == 2:
        return add(sources[0], sources[1], 1 if i.opcode == "add" else -1)
    if i.opcode == "shl":
        constant = kinds.constant(i.operands[2])
        return scaled(sources[0], 1 << constant) if constant is not None and 0 <= constant < bits else None
    if i.opcode in ("mul", "mad"):
        return _product(kinds, i, sources, types[-1])
    if i.opcode in ("and", "or", "xor") and bits > 16:
        return _combined(kinds, i, sources, bits)
    if i.opcode == "shr" and bits > 16:
        constant = kinds.constant(i.operands[2])
        known = constant is not None and 0 <= constant < bits
        return shifted_right(sources[0], constant, kinds.lanes) if known else None  # type: ignore[arg-type]
    if i.opcode == "cvt" and len(types) == 2:
        return _converted(types[1], types[0], sources[0], kinds.lanes)
    return None


def _combined(kinds: Kinds, i: Instruction, sources: list[Kind], bits: int) -> Kind | None:
    for k in (0, 1):
        constant = kinds.constant(i.operands[k + 1])
        if constant is not None:
            return bitwise(i.opcode, sources[1 - k], constant & ((1 << bits) - 1), kinds.lanes)
    return None


def _product(kinds: Kinds, i: Instruction, sources: list[Kind], type_: str) -> Kind | None:
    a, b = sources[0], sources[1]
    if i.has("wide"):
        if type_[1:] != "32":
            return None
        a, b = (extended(k, type_[0] == "s", kinds.lanes) for k in (a, b))
    else:
        type_ = f"s{type_[1:]}"  # modulo two to the width the sign does not matter: small strides are best
    first, second = kinds.constant(i.operands[1]), kinds.constant(i.operands[2])
    if a == b == UNIFORM:
        product: Kind = Affine(0, min(_zeros(a) + _zeros(b), _ALL))
    elif second is not None:
        product = scaled(a, literal(second, type_))
    elif first is not None:
        product = scaled(b, literal(first, type_))
    else:
        return None
    return product if i.opcode == "mul" else add(product, sources[2])


def literal(value: int, type_: str) -> int:
    """A literal as the type takes it: truncated, with the type's sign."""
    bits = int(type_[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if type_[0] != "u" and value >> (bits - 1) else value


def _converted(source: str, target: str, kind: Kind, lanes: int) -> Kind | None:
    """cvt between integers. Narrow ones wrap and are left to the general rule."""
    have, want = int(source[1:]), int(target[1:])
    if have == want and have >= 32:
        return kind
    if (have, want) == (32, 64):
        return extended(kind, source[0] == "s", lanes)
    return truncated(kind) if (have, want) == (64, 32) else None
