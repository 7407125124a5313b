#!/bin/bash
# Run in the verifier's own container, which holds what Harbor fetched from the judge's: writes the reward.
exec python3 -I /tests/reward.py
