"""The lines of a picture, each worked out once and put where it is shown."""

from __future__ import annotations

import numpy as np

from viewer.timeline.geometry.raster import Lines

GROUND, ROW, EDGE = 0xFF101010, 0xFF2020FF, 0xFF00FF00


def test_a_line_is_shown_at_its_places_and_lets_the_ground_through() -> None:
    lines, pixels = Lines(), np.zeros((6, 3), np.uint32)
    for _ in range(2):  # nothing is left of the picture before
        below, beside = lines.begin(np.array([0, 0, 0, 1, 1, 1]), 2, 3, 2)
        below.fill(GROUND)
        beside.fill(EDGE)
        lines.add(slice(1, 3))[:] = (ROW, 0, ROW)
        lines.add(slice(2, 4)).fill(ROW)
        lines.put(pixels)
        ground, edge = [GROUND] * 3, [EDGE] * 3
        assert pixels.tolist() == [ground, [ROW, GROUND, ROW], [ROW] * 3, [ROW] * 3, edge, edge]


def test_a_picture_of_another_size_or_of_more_lines_has_room() -> None:
    lines = Lines()
    for height, width, most in ((2, 3, 1), (4, 2, 3), (4, 2, 8)):
        lines.begin(np.zeros(height, np.int64), 1, width, most).fill(GROUND)
        for number in range(most):
            lines.add(slice(number, number + 1)).fill(EDGE)
        pixels = np.zeros((height, width), np.uint32)
        lines.put(pixels)
        assert (pixels[:most] == EDGE).all()
        assert (pixels[most:] == GROUND).all()
