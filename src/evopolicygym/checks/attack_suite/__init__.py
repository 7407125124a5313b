"""The attack suite: reads the attacks, lays decoys, plays each attack and judges what came of it."""
