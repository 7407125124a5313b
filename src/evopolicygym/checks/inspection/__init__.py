"""What is looked for once something was played: processes that are left, and words that must not be there."""
