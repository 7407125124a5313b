"""What an outsider runs on a thing of their own: an environment, a sandbox, an executor, an agent."""
