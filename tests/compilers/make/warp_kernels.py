"""Kernels in Warp, all in the module of this file."""

import warp as wp


@wp.kernel(enable_backward=False)
def saxpy(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), a: wp.float32):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel(enable_backward=False)
def stencil(src: wp.array2d(dtype=wp.float64), dst: wp.array2d(dtype=wp.float64)):
    """Five points, edges repeated; threads in two dimensions."""
    i, j = wp.tid()
    h, w = src.shape[0], src.shape[1]
    up, down = wp.max(i - 1, 0), wp.min(i + 1, h - 1)
    left, right = wp.max(j - 1, 0), wp.min(j + 1, w - 1)
    dst[i, j] = src[up, j] + src[down, j] + src[i, left] + src[i, right] - wp.float64(4.0) * src[i, j]


@wp.struct
class Particle:
    position: wp.vec3
    velocity: wp.vec3
    mass: float


@wp.kernel(enable_backward=False)
def particles(p: wp.array(dtype=Particle), turn: wp.quat, frame: wp.mat33, energy: wp.array(dtype=float), dt: float):
    """Vectors, a quaternion, a matrix and its inverse, an atomic sum."""
    i = wp.tid()
    q = p[i]
    force = frame * wp.quat_rotate(turn, q.position) + wp.cross(q.velocity, wp.vec3(0.0, 0.0, 1.0))
    q.velocity = q.velocity + force * (dt / q.mass)
    q.position = q.position + wp.inverse(frame) * q.velocity * dt
    wp.atomic_add(energy, 0, 0.5 * q.mass * wp.length_sq(q.velocity))
    wp.atomic_max(energy, 1, wp.length(q.position))
    p[i] = q


@wp.kernel(enable_backward=False)
def collatz(steps: wp.array(dtype=wp.int32), first: wp.uint64):
    """A loop that each thread leaves at a time of its own."""
    i = wp.tid()
    n = first + wp.uint64(i)
    count = wp.int32(0)
    while n != wp.uint64(1):
        if n % wp.uint64(2) == wp.uint64(0):
            n = n / wp.uint64(2)
        else:
            n = wp.uint64(3) * n + wp.uint64(1)
        count += wp.int32(1)
    steps[i] = count


@wp.kernel(enable_backward=True)
def loss(x: wp.array(dtype=float), w: wp.array(dtype=float), total: wp.array(dtype=float)):
    """Differentiated by Warp: the kernel that runs backwards is tested, too."""
    i = wp.tid()
    v = wp.sin(x[i]) * w[i] + wp.exp(-x[i] * x[i])
    wp.atomic_add(total, 0, v * v)


@wp.kernel(enable_backward=False)
def sums(x: wp.array2d(dtype=float), rows: wp.array(dtype=float), total: wp.array(dtype=float)):
    """A tile of 256 elements a block: sums by shuffles and shared memory."""
    i, _t = wp.tid()
    tile = wp.tile_load(x[i], shape=256)
    wp.tile_store(rows, wp.tile_sum(tile), offset=i)
    wp.tile_atomic_add(total, wp.tile_sum(tile * tile), offset=0)
