"""What the walk pays."""

ARRIVES = 1.0
PAYS = -0.1
