"""Graphs of basic blocks, by the numbers of the blocks."""

from __future__ import annotations

from collections.abc import Sequence


def components(nodes: Sequence[int], successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Strongly connected components among `nodes` (Tarjan, without recursion), each in ascending order; one that leads
    to another comes behind it.

    >>> components(range(4), [[1], [2], [1, 3], []])
    [[3], [1, 2], [0]]
    """
    among = set(nodes)
    # The last successor first: then the components come, as far as possible, in ascending order.
    following = {n: sorted((s for s in successors[n] if s in among), reverse=True) for n in nodes}
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in nodes:
        if root in number:
            continue
        work = [(root, 0)]
        while work:
            index, edge = work.pop()
            if edge == 0:
                number[index] = low[index] = len(number)
                stack.append(index)
                on_stack.add(index)
            for position in range(edge, len(following[index])):
                successor = following[index][position]
                if successor not in number:
                    work += [(index, position + 1), (successor, 0)]
                    break
                if successor in on_stack:
                    low[index] = min(low[index], number[successor])
            else:
                if low[index] == number[index]:
                    members: list[int] = []
                    while not members or members[-1] != index:
                        members.append(stack.pop())
                        on_stack.discard(members[-1])
                    found.append(sorted(members))
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[index])
    return found
