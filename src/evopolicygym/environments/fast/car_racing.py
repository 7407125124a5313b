"""car_racing, which leaves out of a frame what lies out of sight.

For every frame, the simulator turns each of some 700 pieces of grass and road about the car, one after the other, and
draws those that are in the window or near it. Here, pieces whose surrounding circle doesn't touch the window are left
out before; the simulator draws the others, in its own order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.envs.box2d import car_racing as original

_Points = Sequence[tuple[float, float]]
_MARGIN = 4.0
"""Pixels by which the circles are made larger: lines are blurred by one, and corners moved to the pixel's."""


class _Pieces:
    """Polygons of the plane, and the circle around each."""

    def __init__(self, polygons: Sequence[_Points]) -> None:
        self.polygons = [[(point[0], point[1]) for point in polygon] for polygon in polygons]
        corners = np.array(self.polygons, dtype=np.float64).reshape(len(self.polygons), -1, 2)
        self._centers = corners.mean(axis=1)
        self._radii = np.linalg.norm(corners - self._centers[:, None], axis=2).max(axis=1, initial=0.0)

    def in_sight(self, zoom: float, translation: tuple[float, float], angle: float) -> list[int]:
        """Return which pieces the window may show, as turned by an angle, rad, stretched and moved, pixels."""
        x, y = (self._centers @ _turn(angle) * zoom + np.asarray(translation)).T
        reach = self._radii * zoom + _MARGIN
        across = (x >= -reach) & (x <= original.WINDOW_W + reach)
        return list(np.flatnonzero(across & (y >= -reach) & (y <= original.WINDOW_H + reach)))


class CarRacing(original.CarRacing):
    """Gymnasium's, with frames of what is in sight."""

    surf: Any
    _road: _Pieces
    _road_of: object = None
    """The list that ``_road`` was made from; a reset makes a new one."""

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
            color = [int(part) for part in self.road_poly[index][1]]  # it changes where the car has been
            draw(self.surf, self._road.polygons[index], color, *window)


def _turn(angle: float) -> Any:  # noqa: ANN401 - an array
    """Return the matrix that turns row vectors by an angle, rad."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, sine], [-sine, cosine]])


def _shows_field_only(zoom: float, translation: tuple[float, float], angle: float) -> bool:
    """Return whether every corner of the window, made larger by the margin, lies within the field."""
    across = (-_MARGIN, original.WINDOW_W + _MARGIN)
    corners = np.array([(x, y) for x in across for y in (-_MARGIN, original.WINDOW_H + _MARGIN)])
    places = (corners - np.asarray(translation)) / zoom @ _turn(-angle)
    return bool(np.abs(places).max() < original.PLAYFIELD)


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
