"""The search for channels between policies, and the policy that tries system calls for it."""
