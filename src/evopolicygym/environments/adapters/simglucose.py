"""Simglucose, whose patients are created one by one: here the seed of a reset draws a patient, meals and noise.

The reward is ours, since simglucose's compares only two samples: a return of 100 is a day within the target range of
glucose, and -100 a day far outside.
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
"""A day, in steps of three minutes."""
PATIENTS = 30
"""Ten adolescents, ten adults, ten children."""
SENSOR, PUMP = "Dexcom", "Insulet"
MIDNIGHT = datetime(2018, 1, 1)  # noqa: DTZ001 - without a time zone
LOW, HIGH = 70.0, 180.0
"""The rewarded range, in milligrams per decilitre."""
VERY_LOW, VERY_HIGH = 54.0, 250.0
"""Limits beyond which a step has a penalty of the same size."""
MAX_INSULIN = 5.0
"""Most units of insulin in a step."""
SEEDS = 2**31


class Day(gymnasium.Env[Any, Any]):
    """A day of a patient with diabetes of the first type, whose pump is to keep glucose in its range."""

    observation_space = spaces.Box(0.0, 1000.0, (4,), np.float32)
    action_space = spaces.Box(0.0, MAX_INSULIN, (1,), np.float32)

    def __init__(self) -> None:
        self._day: Any = None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the day of a seed, or any day without one."""
        super().reset(seed=seed, options=options)
        patient_seed, meal_seed, sensor_seed = map(int, self.np_random.integers(SEEDS, size=3))
        number = 1 + int(self.np_random.integers(PATIENTS))
        self._day = T1DSimEnv(
            T1DPatient.withID(number, random_init_bg=True, seed=patient_seed),
            CGMSensor.withName(SENSOR, seed=sensor_seed),
            InsulinPump.withName(PUMP),
            RandomScenario(MIDNIGHT, seed=meal_seed),
        )
        self._steps = 0
        return self._observation(self._day.reset().observation.CGM, 0.0, 0.0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Give insulin for three minutes; if the day ends early, the remaining steps count as penalties."""
        units, minutes = float(np.clip(action, 0.0, MAX_INSULIN)[0]), self._day.sample_time
        result = self._day.step(Action(basal=units / minutes, bolus=0.0))
        self._steps += 1
        glucose = float(result.info["bg"])
        left = STEPS - self._steps if result.done else 0
        reward = (self._step_reward(glucose) - left) * 100.0 / STEPS
        observation = self._observation(result.observation.CGM, float(result.info["meal"]) * minutes, units)
        return observation, reward, bool(result.done), self._steps >= STEPS, {"glucose": glucose}

    def _step_reward(self, glucose: float) -> int:
        if LOW <= glucose <= HIGH:
            return 1
        return 0 if VERY_LOW <= glucose <= VERY_HIGH else -1

    def _observation(self, measured: float, eaten: float, units: float) -> Any:  # noqa: ANN401 - an array
        hours = (self._day.time - MIDNIGHT) / timedelta(hours=1)
        return np.array([measured, eaten, units, hours], np.float32)


register("simglucose/Day-v0", f"{__name__}:{Day.__name__}", max_episode_steps=STEPS)
