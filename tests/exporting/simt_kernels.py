"""A kernel from the Python front end, with a barrier and shared memory."""

import interop as io
from interop import simt

BLOCK = io.Const("BLOCK", 64)


@simt.kernel(block=64, grid="ceil_div(len(dst), block.x)", requires=["len(src) == len(dst)"])
def reverse_blocks(src: io.Slice[io.f32], dst: io.DisjointSlice[io.f32], bias: io.f32):
    """dst <- src with each full block of 64 reversed, plus bias; the rest stays in its order."""
    tile = simt.shared(io.f32, 64)
    i = simt.global_index()
    t = simt.thread_index()
    if i < len(src):
        tile[t] = src[i]
    simt.barrier()
    full = (simt.block_index() + 1) * BLOCK <= len(dst)
    if i < len(dst):
        dst[i] = (tile[BLOCK - 1 - t] if full else tile[t]) + bias


@simt.kernel(block=32, grid="ceil_div(len(dst), block.x)", requires=["len(index) >= len(dst)"])
def gather(src: io.Slice[io.f32], index: io.Slice[io.i32], dst: io.DisjointSlice[io.f32]):
    """dst <- src[index]; an index out of range stops the kernel."""
    i = simt.global_index()
    if i < len(dst):
        dst[i] = src[index[i]]
