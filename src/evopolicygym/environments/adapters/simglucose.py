"""Simglucose, whose patients are made one by one: here the seed of a reset draws a patient, a day's meals and noise.

What is paid is ours: simglucose's own reward compares only two samples. A score of 100 is a day in the range of
glucose that medicine aims at, and -100 one far out of it.
"""

from datetime import datetime, timedelta
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import register
from simglucose.actuator.pump import InsulinPump
from simglucose.controller.base import Action
from simglucose.patient.t1dpatient import T1DPatient
from simglucose.sensor.cgm import CGMSensor
from simglucose.simulation.env import T1DSimEnv
from simglucose.simulation.scenario_gen import RandomScenario

STEPS = 480
"""Of three minutes each: a day."""
PATIENTS = 30
"""Ten adolescents, ten adults, ten children."""
SENSOR, PUMP = "Dexcom", "Insulet"
MIDNIGHT = datetime(2018, 1, 1)  # noqa: DTZ001 - of no place
LOW, HIGH = 70.0, 180.0
"""Milligrams a decilitre: within these a step is paid."""
VERY_LOW, VERY_HIGH = 54.0, 250.0
"""Beyond these it costs as much."""
MOST_INSULIN = 5.0
"""Units in a step."""
SEEDS = 2**31


class Day(gymnasium.Env[Any, Any]):
    """A day of a patient with diabetes of the first type, whose pump is to keep glucose in its range."""

    observation_space = spaces.Box(0.0, 1000.0, (4,), np.float32)
    action_space = spaces.Box(0.0, MOST_INSULIN, (1,), np.float32)

    def __init__(self) -> None:
        self._day: Any = None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the day that a seed stands for; without one, any."""
        super().reset(seed=seed, options=options)
        of_patient, of_meals, of_sensor = map(int, self.np_random.integers(SEEDS, size=3))
        number = 1 + int(self.np_random.integers(PATIENTS))
        self._day = T1DSimEnv(
            T1DPatient.withID(number, random_init_bg=True, seed=of_patient),
            CGMSensor.withName(SENSOR, seed=of_sensor),
            InsulinPump.withName(PUMP),
            RandomScenario(MIDNIGHT, seed=of_meals),
        )
        self._steps = 0
        return self._observation(self._day.reset().observation.CGM, 0.0, 0.0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Give insulin for three minutes; a patient who is lost early has lost the rest of the day too."""
        units, minutes = float(np.clip(action, 0.0, MOST_INSULIN)[0]), self._day.sample_time
        found = self._day.step(Action(basal=units / minutes, bolus=0.0))
        self._steps += 1
        glucose = float(found.info["bg"])
        left = STEPS - self._steps if found.done else 0
        reward = (self._worth(glucose) - left) * 100.0 / STEPS
        seen = self._observation(found.observation.CGM, float(found.info["meal"]) * minutes, units)
        return seen, reward, bool(found.done), self._steps >= STEPS, {"glucose": glucose}

    def _worth(self, glucose: float) -> int:
        if LOW <= glucose <= HIGH:
            return 1
        return 0 if VERY_LOW <= glucose <= VERY_HIGH else -1

    def _observation(self, measured: float, eaten: float, units: float) -> Any:  # noqa: ANN401 - an array
        hours = (self._day.time - MIDNIGHT) / timedelta(hours=1)
        return np.array([measured, eaten, units, hours], np.float32)


register("simglucose/Day-v0", f"{__name__}:{Day.__name__}", max_episode_steps=STEPS)
