"""A page as PDF, set by Qt; needs no window and no display."""

from __future__ import annotations

import os

from PySide6.QtCore import QBuffer, QByteArray, QEventLoop, QIODevice, QMarginsF, QRectF, Qt, QUrl
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFont,
    QGuiApplication,
    QImage,
    QPageLayout,
    QPageSize,
    QPainter,
    QPalette,
    QPdfWriter,
    QTextDocument,
)
from PySide6.QtSvg import QSvgRenderer

from viewer.reports.rendering.pages import PAPER_INK, Page

DOTS_PER_INCH = 96
MARGIN_MM = 14.0
_KEEP = Qt.AspectRatioMode.KeepAspectRatio
SHARPER = 3.0  # dots of a picture for each of the page


def as_pdf(page: Page) -> bytes:
    """The printed page; ``page.printed`` must be set."""
    application = QGuiApplication.instance() or _application()
    assert application is not None
    _loop = QEventLoop()  # a long text is set by Qt's timers, which each thread needs a loop for
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setPageSize(QPageSize(QPageSize.PageSizeId.A4))
    margins = QMarginsF(MARGIN_MM, MARGIN_MM, MARGIN_MM, MARGIN_MM)
    writer.setPageMargins(margins, QPageLayout.Unit.Millimeter)
    writer.setResolution(DOTS_PER_INCH * int(SHARPER))
    writer.setCreator("Stallscope")
    width = writer.width() / SHARPER
    document = QTextDocument()
    document.setDocumentMargin(0)
    document.setDefaultFont(QFont("sans-serif", 8))
    for number, svg in enumerate(page.pictures):
        image = _image(svg, width)
        document.addResource(QTextDocument.ResourceType.ImageResource.value, QUrl(f"picture{number}"), image)
    document.setDefaultStyleSheet(_STYLE)
    document.setHtml(_fitting(page, width))
    document.setPageSize(QRectF(0, 0, width, writer.height() / SHARPER).size())
    context = QAbstractTextDocumentLayout.PaintContext()
    context.palette = _paper()  # else the text has the colour of the window, pale in a dark one
    painter = QPainter(writer)
    painter.scale(SHARPER, SHARPER)
    for number in range(document.pageCount()):
        if number:
            writer.newPage()
        painter.save()
        painter.translate(0, -number * writer.height() / SHARPER)
        context.clip = QRectF(0, number * writer.height() / SHARPER, width, writer.height() / SHARPER)
        painter.setClipRect(context.clip)
        document.documentLayout().draw(painter, context)
        painter.restore()
    painter.end()
    buffer.close()
    return bytes(data.data())


_STYLE = """
h1 { font-size: 14pt; } h2 { font-size: 10.5pt; } h3 { font-size: 9pt; }
.quiet { color: #5b6270; } .number { text-align: right; }
td, th { padding-right: 10px; padding-bottom: 2px; } th { text-align: left; }
pre { background: #eef0f4; font-size: 7pt; }
"""


def _paper() -> QPalette:
    """Ink on white, whatever the theme of the window."""
    palette = QPalette()
    for role in (QPalette.ColorRole.Text, QPalette.ColorRole.WindowText):
        palette.setColor(role, QColor(PAPER_INK))
    palette.setColor(QPalette.ColorRole.Base, QColor("#ffffff"))
    return palette


def _application() -> QGuiApplication:
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    return QGuiApplication(["stallscope"])


def _image(svg: str, width: float) -> QImage:
    renderer = QSvgRenderer(QByteArray(svg.encode("utf-8")))
    size = renderer.defaultSize()
    shown = size.scaled(int(width * SHARPER), 1 << 20, _KEEP)
    image = QImage(shown, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    return image


def _fitting(page: Page, width: float) -> str:
    text = page.text
    for number, svg in enumerate(page.pictures):
        size = QSvgRenderer(QByteArray(svg.encode("utf-8"))).defaultSize()
        height = int(width * size.height() / max(size.width(), 1))
        text = text.replace(
            f'<img src="picture{number}" width="{size.width()}" height="{size.height()}">',
            f'<img src="picture{number}" width="{int(width)}" height="{height}">',
        )
    return text
