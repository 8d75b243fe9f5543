"""One photograph, three kernels, two languages, two hosts.

A blur written in CUDA C++ and edges and a tone curve written in Python run as one pipeline from Python; then the same
kernels are exported, built into a C++ program, and run again on the same pixels. The two results are compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import interop as io

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

GAIN, GAMMA = 1.6, 0.7
console = Console(highlight=False)


@dataclass(frozen=True)
class Row:
    """One line of the closing table."""

    kernel: str
    language: str
    host: str
    device: str
    milliseconds: float


def main(
    image: Annotated[Path | None, typer.Option(help="A picture; without it, matplotlib's sample photograph.")] = None,
    out: Annotated[Path, typer.Option(help="Where the exported folder and its build go.")] = HERE / "out",
    device: Annotated[str, typer.Option(help="cpu, cuda, or best: cuda where there is one.")] = "best",
    json: Annotated[Path | None, typer.Option(help="Also write the table to this file.")] = None,
) -> None:
    """Runs the photo demo; exit status 0 only if both hosts agree."""
    try:
        rows = run(image, out, device)
        if json:
            json.write_text(dumps([asdict(row) for row in rows], indent=2) + "\n")
    except (io.Error, DemoError, OSError) as error:  # OSError: a folder that cannot be written, a full disk
        console.print("[red]error:[/]", escape(str(error)))
        raise typer.Exit(1) from None


class DemoError(Exception):
    """Something outside the kernels went wrong: a file, a tool, a build."""


def run(image: Path | None, out: Path, device_name: str) -> list[Row]:
    """The whole demo; returns the table's rows once both hosts agree."""
    device = pick_device(device_name)
    console.print(f"device: {device.name} ({device.kind})")
    out.mkdir(parents=True, exist_ok=True)
    pixels, source = load_pixels(image)
    shown = (out if image is None else source.parent) / f"{source.stem}.sketch.png"

    with step("build the kernels"):
        pipeline = make_pipeline()
    with step(f"run them from Python on {pixels.shape[1]} x {pixels.shape[0]} pixels"):
        from_python, rows = run_python(pipeline, pixels, device)
        save_png(from_python, shown)
        save_png(pixels, out / f"{source.stem}.input.png")
    with step("export them, with one stored example each"):
        export_kernels(pipeline, out / "photo")
    with step("build the exported folder and a C++ program with CMake"):
        build = build_host(out)
    with step("replay the stored examples in the exported folder (ctest)"):
        run_tool([cmake_tool("ctest"), "--test-dir", build / "photo", "--output-on-failure"], "the self-test")
    with step("run the C++ program on the same pixels"):
        from_cpp, cpp_rows = run_host(build / "sketch", out, pixels, device)
        save_png(from_cpp, out / f"{source.stem}.cpp.png")

    console.print(make_table(rows + cpp_rows))
    console.print(f"picture: {escape(str(shown))}")
    verdict(from_python, from_cpp)
    return rows + cpp_rows


def pick_device(name: str) -> Any:
    """The device object for `name`; ``best`` is the first GPU, else the CPU device."""
    if name not in ("best", "cpu", "cuda"):
        raise DemoError(f"--device is best, cpu or cuda, not '{name}'")
    if name == "best":
        return next((d for d in io.devices() if d.kind == "cuda"), None) or io.device("cpu")
    return io.device(name)


def load_pixels(path: Path | None) -> tuple[NDArray[np.float32], Path]:
    """The picture's luminance, float32 in 0 … 1, shape (height, width), and where it came from."""
    if path is None:
        import matplotlib

        path = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    try:
        with Image.open(path) as picture:
            pixels = luminance(picture)
    except FileNotFoundError:
        raise DemoError(f"{path}: no such file; give --image the path of a picture") from None
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise DemoError(f"{path}: not a picture that Pillow can read ({error})") from None
    return np.ascontiguousarray(pixels), path


def luminance(picture: Image.Image) -> NDArray[np.float32]:
    """Grey values in 0 … 1. Pillow's own conversion cuts 16-bit pixels off at 255, so these are divided instead."""
    if picture.mode.startswith("I"):
        return np.asarray(picture).astype(np.float32).clip(0, 65535) / np.float32(65535)
    if picture.mode == "F":  # by convention 0 … 1 already
        return np.nan_to_num(np.asarray(picture)).clip(0, 1)
    return np.asarray(picture.convert("L"), dtype=np.float32) / np.float32(255)


def make_pipeline() -> io.Pipeline:
    """blur (CUDA C++) → edges (Python) → tone (Python)."""
    from kernels import blur, edges, tone

    p = io.Pipeline("sketch")
    src = p.buffer("src", io.f32, 2)
    dst = p.buffer("dst", io.f32, 2)
    smooth = p.buffer("smooth", io.f32, shape=["dim(src, 0)", "dim(src, 1)"])
    outline = p.buffer("outline", io.f32, shape=["dim(src, 0)", "dim(src, 1)"])
    p.add(blur, src, smooth, p.formula("dim(src, 1)"), p.formula("dim(src, 0)"))
    p.add(edges, smooth, outline)
    p.add(tone, outline, dst, GAIN, GAMMA)
    return p


def run_python(pipeline: io.Pipeline, pixels: NDArray[np.float32], device: Any) -> tuple[Any, list[Row]]:
    """Runs the pipeline and reports the times of a later run: a kernel's first launches also load and prepare it."""
    if device.kind == "cpu":
        src, dst = pixels, np.full_like(pixels, np.nan)
    else:
        src, dst = io.to_device(pixels, device), io.to_device(np.full_like(pixels, np.nan), device)
    for _ in range(3):
        pipeline.run(src=src, dst=dst)
    result, timings = pipeline.profile(src=src, dst=dst)
    rows = [Row(t.kernel, t.language, "Python", t.device, t.seconds * 1e3) for t in timings]
    final = result["dst"]
    return (final if isinstance(final, np.ndarray) else final.to_host()), rows


def export_kernels(pipeline: io.Pipeline, folder: Path) -> None:
    """Writes the bundle with a small random example for each kernel, which the receiver's ctest replays."""
    blur, edges, tone = (s.kernel for s in pipeline.steps)
    random = np.random.default_rng(1)
    picture = random.random((37, 53), dtype=np.float32)
    empty = np.full_like(picture, np.nan)
    examples = [
        io.Example(blur, (picture, empty.copy(), 53, 37)),
        io.Example(edges, (picture, empty.copy())),
        io.Example(tone, (picture.ravel(), empty.ravel().copy(), GAIN, GAMMA)),
    ]
    io.export([blur, edges, tone], folder, name="photo", examples=examples)


def build_host(out: Path) -> Path:
    """Builds the C++ program of ``host/`` against the exported folder; returns the build folder."""
    for tool in ("cc", "c++"):
        if not shutil.which(os.environ.get({"cc": "CC", "c++": "CXX"}[tool], tool)):
            raise DemoError(f"no {tool} found, which builds the C++ half: apt install g++ (or your system's package)")
    build = out / "build"
    configure = ["-S", HERE / "host", "-B", build, f"-DPHOTO_FOLDER={out / 'photo'}", "-DCMAKE_BUILD_TYPE=Release"]
    run_tool([cmake_tool("cmake"), *configure], "cmake")
    run_tool([cmake_tool("cmake"), "--build", build, "--parallel"], "the C++ build")
    return build


def run_host(
    program: Path, out: Path, pixels: NDArray[np.float32], device: Any
) -> tuple[NDArray[np.float32], list[Row]]:
    """Runs the C++ program; it reads and writes raw float32 pixels and prints ``kernel device milliseconds`` lines."""
    raw_in, raw_out = out / "pixels.f32", out / "result.f32"
    raw_in.write_bytes(pixels.tobytes())
    raw_out.unlink(missing_ok=True)
    height, width = pixels.shape
    printed = run_tool([program, device.kind, raw_in, raw_out, width, height, GAIN, GAMMA], "the C++ program")
    from kernels import blur, edges, tone

    languages = {k.name: k.program().kernel.language for k in (blur, edges, tone)}
    rows = []
    for line in printed.splitlines():
        kernel, milliseconds, where = line.split(" ", 2)
        rows.append(Row(kernel, languages[kernel], "C++", where, float(milliseconds)))
    return np.frombuffer(raw_out.read_bytes(), np.float32).reshape(pixels.shape), rows


def make_table(rows: list[Row]) -> Table:
    table = Table("kernel", "written in", "called from", "ran on", "ms")
    table.columns[-1].justify = "right"
    for row in rows:
        table.add_row(row.kernel, row.language, row.host, row.device, f"{row.milliseconds:.3f}")
    return table


def verdict(from_python: NDArray[np.float32], from_cpp: NDArray[np.float32]) -> None:
    """Prints ``match`` if the two results are the same bytes; else says where they part and fails."""
    different = from_python.view(np.uint32) != from_cpp.view(np.uint32)
    if not np.isfinite(from_python).all():
        raise DemoError("the result holds values that are not finite: some pixel was not written")
    if different.any():
        row, column = np.argwhere(different)[0]
        raise DemoError(
            f"no match: {different.sum()} of {different.size} pixels differ; first at row {row}, column {column}: "
            f"{from_python[row, column]!r} from Python, {from_cpp[row, column]!r} from C++"
        )
    console.print(f"[green]match[/]: {different.size} pixels, byte for byte")


def save_png(pixels: NDArray[np.float32], path: Path) -> None:
    Image.fromarray((np.clip(pixels, 0, 1) * 255 + 0.5).astype(np.uint8)).save(path)


def cmake_tool(name: str) -> str:
    """The tool beside this Python (CMake comes from PyPI where the machine has none), else the one on PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if not found:
        raise DemoError(f"no {name} found: pip install cmake")
    return found


def run_tool(command: list[Any], what: str) -> str:
    """Runs a command and returns what it printed; its output is shown only if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoError(f"{what} failed (exit status {done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def step(text: str) -> Iterator[None]:
    """Shows what is being done while it is being done."""
    with console.status(f"{text} …"):
        yield
    console.print(f"[green]✓[/] {text}")


if __name__ == "__main__":
    typer.run(main)
