"""Playing: runs, suites, sessions for agents outside, replays, environments and the checks of parts."""
