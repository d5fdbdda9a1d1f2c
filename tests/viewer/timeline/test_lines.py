"""The lines of a picture, each worked out once and put where it is shown."""

from __future__ import annotations

import numpy as np

from viewer.timeline.geometry.raster import Lines

GROUND, ROW, EDGE = 0xFF101010, 0xFF2020FF, 0xFF00FF00


def test_a_line_is_shown_at_its_places_and_lets_the_ground_through() -> None:
    lines, pixels = Lines(), np.zeros((6, 3), np.uint32)
    for _ in range(2):  # nothing is left of the picture before
        lines.begin(6, 3, 2).fill(GROUND)
        lines.add(slice(1, 3))[:] = (ROW, 0, ROW)
        lines.add(slice(2, 3), slice(5, 9)).fill(EDGE)
        lines.put(pixels)
        ground, edge = [GROUND] * 3, [EDGE] * 3
        assert pixels.tolist() == [ground, [ROW, GROUND, ROW], edge, ground, ground, edge]


def test_a_picture_of_another_size_or_of_more_lines_has_room() -> None:
    lines = Lines()
    for height, width, most in ((2, 3, 1), (4, 2, 3), (4, 2, 8)):
        lines.begin(height, width, most).fill(GROUND)
        for number in range(most):
            lines.add(slice(number, number + 1)).fill(EDGE)
        pixels = np.zeros((height, width), np.uint32)
        lines.put(pixels)
        assert (pixels[:most] == EDGE).all()
        assert (pixels[most:] == GROUND).all()
