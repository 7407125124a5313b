"""A zygote in a namespace of process numbers of its own: ``python -m guest.isolated_zygote DESCRIPTOR LAST_NUMBER``.

The namespace comes first and numpy after it, so that the process which only waits for the zygote's end is small.
"""

import sys

from . import pid_namespace

if __name__ == "__main__":
    pid_namespace.enter_pid_namespace()
    from . import zygote

    zygote.main(int(sys.argv[1]), int(sys.argv[2]))
