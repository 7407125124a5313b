"""``python -m evopolicygym.judge_client``: the commands of ``./judge``, without a workspace."""

import sys

from .command_line import main

if __name__ == "__main__":
    sys.exit(main("."))
