"""``python -m evopolicygym``."""

from evopolicygym.cli.main import main

if __name__ == "__main__":
    main()
