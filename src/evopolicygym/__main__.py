"""``python -m evopolicygym``."""

from evopolicygym.cli.start import main

if __name__ == "__main__":
    main()
