"""What the photo demo does with pictures and folders that are not as one would wish."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PHOTO = ROOT / "examples" / "photo"

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PHOTO))
    return __import__("demo")


def grey(mode: str) -> object:
    ramp = np.linspace(0, 1, 12).reshape(3, 4)
    if mode == "I;16":
        return Image.fromarray((ramp * 65535).round().astype(np.uint16))
    if mode == "F":
        return Image.fromarray(ramp.astype(np.float32))
    return Image.fromarray((ramp * 255).round().astype(np.uint8)).convert(mode)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "LA", "CMYK", "I;16", "F"])
def test_a_grey_ramp_is_the_same_in_every_pixel_format(demo: ModuleType, mode: str, tmp_path: Path) -> None:
    path = tmp_path / ("ramp.tiff" if mode in ("F", "CMYK") else "ramp.png")
    grey(mode).save(path)  # type: ignore[attr-defined]
    pixels, source = demo.load_pixels(path)
    assert source == path and pixels.dtype == np.float32
    np.testing.assert_allclose(pixels, np.linspace(0, 1, 12).reshape(3, 4), atol=1 / 255)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1)])
def test_thin_pictures(demo: ModuleType, shape: tuple[int, int], tmp_path: Path) -> None:
    Image.fromarray(np.full(shape, 255, np.uint8)).save(tmp_path / "thin.png")
    assert demo.load_pixels(tmp_path / "thin.png")[0].tolist() == np.ones(shape).tolist()


def bomb() -> bytes:
    """A PNG that says it has 3.6 thousand million pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))


@pytest.mark.parametrize("content", [b"", b"no picture", bomb()], ids=["empty", "text", "bomb"])
def test_what_is_no_picture(demo: ModuleType, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(demo.DemoError, match="not a picture"):
        demo.load_pixels(tmp_path / "x.png")


@pytest.mark.parametrize("options", [["--image", "[/x].png"], ["--out", "file/out"], ["--device", "tpu"]])
def test_mistakes_are_one_message_and_no_traceback(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, str(PHOTO / "demo.py"), "--out", str(tmp_path / "out"), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    assert "error: " in done.stdout
