"""CUDA C++ that computes with integers, as NVRTC, nvcc and clang translate it: the results are exact."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from compilers_harness import RNG, Cuda, poisoned


@pytest.mark.source("sha256")
def test_sha256(cuda: Cuda) -> None:
    n, stride = 70, 60
    messages, lengths = RNG.integers(0, 256, (n, stride), np.uint8), RNG.integers(0, 56, n, np.uint8)
    lengths[:2] = 0, 55
    digests = poisoned((n, 32), np.uint8)
    cuda.kernel()(3, 32, messages, lengths, digests, n, stride)
    for message, length, digest in zip(messages, lengths, digests):
        assert digest.tobytes() == hashlib.sha256(message[:length].tobytes()).digest()


@pytest.mark.source("bigint")
def test_numbers_of_256_bits(cuda: Cuda) -> None:
    n = 100
    a, b = (RNG.integers(0, 1 << 32, (n, 8), dtype=np.uint32) for _ in range(2))
    a[0], b[0], a[1], b[1] = 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0
    b[1, 0] = 1
    sums, products, again = (poisoned((n, k), np.uint32) for k in (9, 16, 16))
    cuda.kernel()(4, 32, a, b, sums, products, again, n)
    for k in range(n):
        x, y = (int.from_bytes(v[k].tobytes(), "little") for v in (a, b))
        assert int.from_bytes(sums[k].tobytes(), "little") == x + y
        assert int.from_bytes(products[k].tobytes(), "little") == x * y
    assert np.array_equal(products, again)


@pytest.mark.source("life")
def test_game_of_life_in_bit_planes(cuda: Cuda) -> None:
    w, h = 3, 41
    cells = RNG.random((h, 32 * w)) < 0.4
    src = np.packbits(cells, axis=1, bitorder="little").view(np.uint32)
    dst, living = poisoned((h, w), np.uint32), np.zeros(1, np.uint32)
    cuda.kernel()((1, 6), (4, 8), src, dst, living, w, h)
    around = sum(
        np.roll(cells, (dy, dx), (0, 1)).astype(int) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)
    )
    wanted = (around == 3) | (cells & (around == 2))
    assert np.array_equal(np.unpackbits(dst.view(np.uint8), axis=1, bitorder="little"), wanted)
    assert living[0] == wanted.sum()


@pytest.mark.source("queens")
def test_queens_by_recursion(cuda: Cuda) -> None:
    n = 6
    total, each = np.full(1, 1 << 40, np.uint64), poisoned((n, n), np.int32)
    cuda.kernel()(1, (n, n), total, each, n)

    def place(columns: list[int]) -> int:
        if len(columns) == n:
            return 1
        return sum(
            place([*columns, c])
            for c in range(n)
            if all(c != d and abs(c - d) != len(columns) - k for k, d in enumerate(columns))
        )

    wanted = np.zeros((n, n), int)
    for a in range(n):
        for b in range(n):
            wanted[a, b] = place([a, b]) if a != b and abs(a - b) != 1 else 0
    assert np.array_equal(each, wanted) and total[0] == (1 << 40) + 4


HALT, PUSH, ADD, SUB, MUL, DIV, DUP, SWAP, OVER, DROP, JUMP, BRANCH, LOAD, STORE, LESS, XOR = range(16)


def _wrap(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def _quotient(a: int, b: int) -> int:
    if b <= 0:
        return ~a
    q = abs(a) // b * (-1 if a < 0 else 1)
    return _wrap(q + a - q * b)


_BINARY: dict[int, Callable[[int, int], int]] = {
    ADD: lambda a, b: a + b, SUB: lambda a, b: a - b, MUL: lambda a, b: a * b, DIV: _quotient,
    LESS: lambda a, b: int(a < b), XOR: lambda a, b: a ^ b,
}  # fmt: skip


def interpret(code: bytes, thread: int, budget: int, stack: list[int]) -> tuple[int, int]:
    """What the machine does, one step at a time."""
    memory = [thread] + [0] * 7
    top = at = step = 0

    def push(v: int) -> None:
        nonlocal top
        stack[top & 15] = _wrap(v)
        top += 1

    def pop() -> int:
        nonlocal top
        top -= 1
        return stack[top & 15]

    while step < budget:
        op = code[at]
        at += 1
        if op == HALT:
            break
        if op in _BINARY:
            b, a = pop(), pop()
            push(_BINARY[op](a, b))
        elif op == PUSH:
            push(code[at] - 256 if code[at] > 127 else code[at])
            at += 1
        elif op == DUP:
            push(stack[(top - 1) & 15])
        elif op == SWAP:
            i, j = (top - 1) & 15, (top - 2) & 15
            stack[i], stack[j] = stack[j], stack[i]
        elif op == OVER:
            push(stack[(top - 2) & 15])
        elif op == DROP:
            top -= 1
        elif op == JUMP:
            at = code[at]
        elif op == BRANCH:
            at = code[at] if pop() != 0 else at + 1
        elif op == LOAD:
            push(memory[code[at] & 7])
            at += 1
        elif op == STORE:
            memory[code[at] & 7] = pop()
            at += 1
        else:
            push(-op)
        step += 1
    return stack[(top - 1) & 15], step


def random_program(length: int = 24) -> bytes:
    """Begins with 16 values on the stack; jumps go to the beginnings of instructions; ends with HALT."""
    code = bytearray()
    for _ in range(16):
        code += bytes([PUSH, RNG.integers(0, 256)])
    starts, patches = [], []
    for _ in range(length):
        starts.append(len(code))
        op = int(RNG.integers(1, 20))
        code.append(op)
        if op in (JUMP, BRANCH):
            patches.append(len(code))
        if op in (PUSH, LOAD, STORE, JUMP, BRANCH):
            code.append(RNG.integers(0, 256))
    starts.append(len(code))
    code.append(HALT)
    for patch in patches:
        code[patch] = starts[RNG.integers(0, len(starts))]
    return bytes(code)


@pytest.mark.source("machine")
def test_programs_of_a_stack_machine(cuda: Cuda) -> None:
    n, budget = 75, 300
    programs = [random_program() for _ in range(n)]
    starts = np.cumsum([0, *(len(p) for p in programs[:-1])]).astype(np.int32)
    code = np.frombuffer(b"".join(programs), np.uint8)
    results, steps = poisoned(n, np.int32), poisoned(n, np.int32)
    cuda.kernel()(3, 32, code, starts, results, steps, n, budget)
    wanted = [interpret(p, k, budget, [0] * 16) for k, p in enumerate(programs)]
    assert list(zip(results.tolist(), steps.tolist())) == wanted


@pytest.mark.source("bitonic")
def test_sort_of_structs(cuda: Cuda) -> None:
    blocks, n = 3, 128
    data = np.zeros((blocks, n), np.dtype([("key", np.uint32), ("value", np.int16), ("tag", np.uint8)], align=True))
    assert data.dtype.itemsize == 8
    data["key"] = [RNG.permutation(np.arange(n, dtype=np.uint32)) * np.uint32(33554431) for _ in range(blocks)]
    data["value"], data["tag"] = RNG.integers(-(1 << 15), 1 << 15, (blocks, n)), RNG.integers(0, 256, (blocks, n))
    wanted = np.sort(data, axis=1, order="key")
    cuda.kernel()(blocks, n, data, shared=8 * n)
    for field in ("key", "value", "tag"):
        assert np.array_equal(data[field], wanted[field])
