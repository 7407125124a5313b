"""Published results that ship with the package."""
