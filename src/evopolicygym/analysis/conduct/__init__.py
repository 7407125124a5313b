"""The audit of an agent's conduct: graded findings with evidence from its transcript and files; it gives no verdict."""
