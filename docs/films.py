"""Draw the films of the gallery from the records in ``results/``: ``python docs/films.py [NAME…]``.

Existing films are kept; delete one to draw it again. Each episode is played again and filmed by ``evopolicygym film``,
which needs the extras ``core16`` and ``viewer`` and the versions of the records. The film becomes an animated WebP.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import av
from PIL import Image, ImageDraw

RESULTS = Path(__file__).parents[1] / "results"
FILMS = Path(__file__).parent / "pictures" / "films"
WIDTH, FPS, LONGEST_S, QUALITY = 240, 10, 8, 50
"""Width of a picture in pixels, pictures a second, the longest film, and its WebP quality."""
CORE16 = (
    *("acrobot", "ant", "bipedal_walker", "car_racing", "continuous_car", "door_key", "fetch_pick_and_place"),
    *("fetch_push", "four_rooms", "half_cheetah", "key_corridor", "obstructed_maze", "parking", "pusher"),
    *("reacher", "roundabout"),
)
EVOLUTIONS = {"parking": (0, 1, 12), "car_racing": (0, 1, 14)}
"""Submissions of the worked examples that are shown beside each other on one held-out case."""


def film(run: Path, case: int = 0, submission: int | None = None) -> list[Image.Image]:
    """Return the pictures of a held-out case, spaced evenly in time."""
    with tempfile.TemporaryDirectory() as directory:
        chosen = [] if submission is None else ["--submission", str(submission)]
        line = [sys.executable, "-m", "evopolicygym", "film", str(run), "--case", str(case), *chosen, "-o", directory]
        subprocess.run(line, check=True)
        (file,) = Path(directory).rglob("*.mp4")
        return list(_pictures(file))


def _pictures(file: Path) -> Iterator[Image.Image]:
    due = 0.0
    with av.open(str(file)) as container:
        for frame in container.decode(video=0):
            if frame.time is not None and due <= frame.time < LONGEST_S:
                due += 1 / FPS
                picture = frame.to_image()
                yield picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)


def side_by_side(films: Sequence[list[Image.Image]], titles: Sequence[str]) -> list[Image.Image]:
    """Return films beside each other, each below its title; a film that ends keeps its last picture."""
    height = max(pictures[0].height for pictures in films)
    joined = []
    for at in range(max(map(len, films))):
        canvas = Image.new("RGB", (len(films) * (WIDTH + 8) - 8, height + 18), "white")
        for number, (pictures, title) in enumerate(zip(films, titles, strict=True)):
            left = number * (WIDTH + 8)
            ImageDraw.Draw(canvas).text((left + 2, 2), title, fill="black", font_size=12)
            canvas.paste(pictures[min(at, len(pictures) - 1)], (left, 18))
        joined.append(canvas)
    return joined


def save(pictures: list[Image.Image], file: Path) -> None:
    """Write an animated WebP that repeats."""
    file.parent.mkdir(parents=True, exist_ok=True)
    duration = [*[1000 // FPS] * (len(pictures) - 1), 1500]
    pictures[0].save(
        file, save_all=True, append_images=pictures[1:], duration=duration, loop=0, quality=QUALITY, method=6
    )
    print(f"{file.name}: {len(pictures)} pictures, {file.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Draw the missing films."""
    wanted = sys.argv[1:]
    for task, submissions in EVOLUTIONS.items():
        file = FILMS / f"evolution_{task}.webp"
        if not file.exists() and (not wanted or file.stem in wanted):
            (run,) = (RESULTS / "examples" / "outside" / task).iterdir()
            films = [film(run, submission=number) for number in submissions]
            save(side_by_side(films, [f"submission {number}" for number in submissions]), file)
    for task in CORE16:
        file = FILMS / f"{task}.webp"
        if not file.exists() and (not wanted or task in wanted):
            (run,) = (RESULTS / "references" / "reference" / task).iterdir()
            save(film(run), file)


if __name__ == "__main__":
    main()
