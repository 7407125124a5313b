"""What the command line shows of packs."""

from pathlib import Path

from shell import Shell


def test_a_pack_is_shown(shell: Shell) -> None:
    """Its tasks are printed with their limits and spaces, which no simulator is asked for."""
    shown = shell("packs", "show", "classic").out

    assert "CliffWalking-v1" in shown
    assert "Box of shape (4,) and float32" in shown
    assert "the hand was won" in shown


def test_a_pack_in_json(shell: Shell) -> None:
    """With --json each task has what its check found."""
    tasks = {one["name"]: one for one in shell.json("packs", "show", "classic")["task_list"]}

    assert tasks["CartPole-v1"]["observation"] == "Box of shape (4,) and float32"
    assert tasks["CartPole-v1"]["repeats"] is True
    assert (tasks["CartPole-v1"]["max_steps"], tasks["CartPole-v1"]["success"]) == (500, None)


def test_a_pack_that_has_nothing(shell: Shell) -> None:
    """A family that can't be had is shown with the reason."""
    shown = shell("packs", "show", "rddl")

    assert shown.code == 0
    assert "Nothing is registered with Gymnasium" in " ".join(shown.out.split())


def test_a_check_into_a_file(shell: Shell, tmp_path: Path) -> None:
    """A file that is no record of a check is not written over."""
    file = tmp_path / "notes.json"
    file.write_text("mine", encoding="utf-8")
    left = shell("packs", "check", "classic", "--task", "CartPole-v1", "--output", file)

    assert left.code == 2
    assert "notes.json" in "".join(left.err.split())
    assert file.read_text(encoding="utf-8") == "mine"
