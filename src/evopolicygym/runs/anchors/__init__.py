"""Anchors: mean returns of known policies, to hold scores against, measured in the sandbox that any policy plays in."""
