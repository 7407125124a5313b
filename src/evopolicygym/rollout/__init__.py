"""Playing: the environment stays with us, the policy plays from the sandbox."""
