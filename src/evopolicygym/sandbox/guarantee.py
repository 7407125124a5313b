"""What an isolation backend may guarantee, word by word; each backend declares which of it holds.

The attacks of ``checks/attacks/`` name the guarantees that must hold them, and ``levels.py`` orders backends by what
they guarantee. How any of it is enforced is described in the backends.
"""

from enum import StrEnum


class Guarantee(StrEnum):
    """One thing that a backend holds policies, or an agent's program, to."""

    HOST_FILES_HIDDEN = "host-files-hidden"
    """A policy reads the interpreter, the packages that it may import and its checkpoint, no other file of the host."""
    HOST_NAMES_HIDDEN = "host-names-hidden"
    """No variable, argument or path that a policy sees names anything of the host."""
    NO_NETWORK = "no-network"
    """A policy reaches no network and no socket of this machine."""
    OTHER_PROCESSES_HIDDEN = "other-processes-hidden"
    """A policy neither sees, reads, traces nor signals a process that is not its own."""
    PROCESS_NUMBERS_PRIVATE = "process-numbers-private"
    """The process numbers that a policy sees are its sandbox's, not the machine's."""
    NOTHING_LEFT = "nothing-left"
    """Nothing that an episode writes, starts or marks is found by a later one."""
    NOTHING_SHARED = "nothing-shared"
    """Policies that play at the same time find no mark of each other, nor measurements of the machine."""
    FILES_PRIVATE = "files-private"
    """No file that a policy or an agent's program can open is one that another run, another role or the host has."""
    SYSTEM_CALLS_FILTERED = "system-calls-filtered"
    """The kernel refuses a policy every system call that it doesn't need, among them those that start programs."""
    NO_PRIVILEGES = "no-privileges"
    """A policy has no capability and can get none."""
    MEMORY_LIMITED = "memory-limited"
    """A policy that takes more memory than it may is refused it."""
    PROCESSES_LIMITED = "processes-limited"
    """A policy starts no process, and no more threads than it may."""
    PROGRAM_LIMITED = "program-limited"
    """An agent's program has no privileges and is held to its limits."""
    PROGRAM_ENCLOSED = "program-enclosed"
    """An agent's program sees its workspace and what its command names, no simulator and nothing else of the host; it
    reaches the judge and its model alone, can import what its run's policies can, and nothing of it outlives a turn."""
