"""The tools that figures are drawn with."""
