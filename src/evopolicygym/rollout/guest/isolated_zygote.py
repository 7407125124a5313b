"""A zygote in a PID namespace: ``python -m guest.isolated_zygote DESCRIPTOR LAST_PID_DESCRIPTOR``.

It enters the namespace before it imports numpy, so that the process that waits for the zygote's end stays small.
"""

import sys

from . import pid_namespace

if __name__ == "__main__":
    pid_namespace.enter_pid_namespace()
    from . import zygote

    zygote.main(int(sys.argv[1]), int(sys.argv[2]))
