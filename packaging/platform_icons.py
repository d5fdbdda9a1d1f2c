"""Writes the .ico of Windows and the .icns of macOS from the pictures in resources/icons, with Pillow."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
ICONS = HERE.parent / "resources" / "icons"


def main() -> None:
    """Each size is the picture that was drawn for it, not a scaled one."""
    pictures = {
        size: Image.open(ICONS / f"stallscope-{size}.png") for size in (16, 24, 32, 48, 64, 128, 256, 512)
    }
    windows = [pictures[size] for size in (16, 24, 32, 48, 64, 128, 256)]
    windows[-1].save(
        HERE / "windows" / "stallscope.ico",
        sizes=[picture.size for picture in windows],
        append_images=windows[:-1],
    )
    apple = [pictures[size] for size in (16, 32, 64, 128, 256)]
    pictures[512].save(HERE / "macos" / "stallscope.icns", append_images=apple)


if __name__ == "__main__":
    main()
