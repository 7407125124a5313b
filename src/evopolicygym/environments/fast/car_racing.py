"""car_racing with frames that skip pieces out of sight.

For every frame, the simulator rotates each of some 700 pieces of grass and road and draws those in or near the window.
Here, pieces whose bounding circle doesn't touch the window are skipped; the simulator draws the others in its order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.envs.box2d import car_racing as original

_Points = Sequence[tuple[float, float]]
_MARGIN = 4.0
"""Pixels by which the circles are enlarged: lines are blurred by one, and corners are rounded to pixels."""


class _Pieces:
    """Polygons with their bounding circles."""

    def __init__(self, polygons: Sequence[_Points]) -> None:
        self.polygons = [[(point[0], point[1]) for point in polygon] for polygon in polygons]
        corners = np.array(self.polygons, dtype=np.float64).reshape(len(self.polygons), -1, 2)
        self._centers = corners.mean(axis=1)
        self._radii = np.linalg.norm(corners - self._centers[:, None], axis=2).max(axis=1, initial=0.0)

    def in_sight(self, zoom: float, translation: tuple[float, float], angle: float) -> list[int]:
        """Return the pieces that the window may show after rotation (rad), zoom and translation (pixels)."""
        x, y = (self._centers @ _rotation(angle) * zoom + np.asarray(translation)).T
        reach = self._radii * zoom + _MARGIN
        across = (x >= -reach) & (x <= original.WINDOW_W + reach)
        return list(np.flatnonzero(across & (y >= -reach) & (y <= original.WINDOW_H + reach)))


class CarRacing(original.CarRacing):
    """Gymnasium's environment with frames of the pieces in sight."""

    surf: Any
    _road: _Pieces
    _road_of: object = None
    """The list that ``_road`` was built from; a reset creates a new one."""

    def _render_road(self, zoom: float, translation: tuple[float, float], angle: float) -> None:
        draw: Any = self._draw_colored_polygon
        window = (zoom, translation, angle)
        if _shows_field_only(*window):
            self.surf.fill(self.bg_color)
        else:
            draw(self.surf, _FIELD, self.bg_color, *window, clip=False)
        for index in _GRASS.in_sight(*window):
            draw(self.surf, _GRASS.polygons[index], self.grass_color, *window)
        if self._road_of is not self.road_poly:
            self._road, self._road_of = _Pieces([polygon for polygon, _ in self.road_poly]), self.road_poly
        for index in self._road.in_sight(*window):
            color = [int(part) for part in self.road_poly[index][1]]  # visited pieces change their colour
            draw(self.surf, self._road.polygons[index], color, *window)


def _rotation(angle: float) -> Any:  # noqa: ANN401 - an array
    """Return the matrix that rotates row vectors by an angle in radians."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, sine], [-sine, cosine]])


def _shows_field_only(zoom: float, translation: tuple[float, float], angle: float) -> bool:
    """Return whether the window, enlarged by the margin, is within the field."""
    across = (-_MARGIN, original.WINDOW_W + _MARGIN)
    corners = np.array([(x, y) for x in across for y in (-_MARGIN, original.WINDOW_H + _MARGIN)])
    positions = (corners - np.asarray(translation)) / zoom @ _rotation(-angle)
    return bool(np.abs(positions).max() < original.PLAYFIELD)


def _grass() -> list[_Points]:
    side, every_other = original.GRASS_DIM, range(-20, 20, 2)
    return [
        [
            (side * x + side, side * y + 0),
            (side * x + 0, side * y + 0),
            (side * x + 0, side * y + side),
            (side * x + side, side * y + side),
        ]
        for x in every_other
        for y in every_other
    ]


_GRASS = _Pieces(_grass())
_FIELD = [(across * original.PLAYFIELD, up * original.PLAYFIELD) for across, up in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
