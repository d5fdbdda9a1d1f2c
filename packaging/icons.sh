#!/usr/bin/env bash
# Draws resources/icons/stallscope-N.png from the two drawings, with Qt, as the program itself would.
# Run it after a change of an icon; the pictures are kept, so that packaging needs no drawing tool.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

QT_QPA_PLATFORM=offscreen "${PYTHON:-.venv/bin/python}" - <<'PYTHON'
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

application = QGuiApplication([])
for size in (16, 22, 24, 32, 48, 64, 128, 256, 512):
    drawing = "stallscope-small" if size <= 32 else "stallscope"
    picture = QImage(size, size, QImage.Format.Format_ARGB32)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    QSvgRenderer(f"resources/icons/{drawing}.svg").render(painter)
    painter.end()
    picture.save(f"resources/icons/stallscope-{size}.png")
PYTHON
