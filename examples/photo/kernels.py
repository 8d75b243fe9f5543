"""The three kernels of the demo: one from CUDA C++, two written here."""

import interop as io
from interop import simt

ROWS, COLUMNS = io.Const("ROWS", 8), io.Const("COLUMNS", 32)


@io.foreign(
    "blur.cu",
    block=(16, 16),
    grid="(ceil_div(width, 16), ceil_div(height, 16))",
    requires=["width > 0 and height > 0", "len(src) >= width * height", "len(dst) >= width * height"],
)
def blur(src: io.In[io.f32], dst: io.InOut[io.f32], width: io.i32, height: io.i32):
    """dst <- src, smoothed with 7 x 7 binomial weights; the border repeats the outermost pixels."""


@simt.kernel(
    block=(32, 8),
    grid="(ceil_div(dim(dst, 1), 32), ceil_div(dim(dst, 0), 8))",
    requires=["dim(src, 0) == dim(dst, 0)", "dim(src, 1) == dim(dst, 1)"],
)
def edges(src: io.Tensor[io.f32, 2], dst: io.DisjointTensor[io.f32, 2]):
    """dst <- the length of the Sobel gradient of src; the border repeats the outermost pixels."""
    tile = simt.shared(io.f32, (ROWS + 2, COLUMNS + 2))
    height, width = dst.shape
    p = simt.global_index(2)
    row, col = p
    y, x = simt.thread_index.y, simt.thread_index.x
    top, left = row - y - 1, col - x - 1
    for k in range(y * COLUMNS + x, (ROWS + 2) * (COLUMNS + 2), ROWS * COLUMNS):
        r, c = k // (COLUMNS + 2), k % (COLUMNS + 2)
        tile[r, c] = src[min(max(top + r, 0), height - 1), min(max(left + c, 0), width - 1)]
    simt.barrier()
    if row < height and col < width:
        right = tile[y, x + 2] + 2.0 * tile[y + 1, x + 2] + tile[y + 2, x + 2]
        left_side = tile[y, x] + 2.0 * tile[y + 1, x] + tile[y + 2, x]
        below = tile[y + 2, x] + 2.0 * tile[y + 2, x + 1] + tile[y + 2, x + 2]
        above = tile[y, x] + 2.0 * tile[y, x + 1] + tile[y, x + 2]
        dst[p] = io.sqrt((right - left_side) * (right - left_side) + (below - above) * (below - above))


@simt.kernel(block=256, grid="ceil_div(len(dst), block.x)", requires=["len(src) == len(dst)"])
def tone(src: io.Slice[io.f32], dst: io.DisjointSlice[io.f32], gain: io.f32, gamma: io.f32):
    """dst <- 1 - min(gain * src, 1) ** gamma: strong edges become dark lines on white."""
    i = simt.global_index()
    if i < len(dst):
        dst[i] = 1.0 - io.pow(min(gain * src[i], 1.0), gamma)
