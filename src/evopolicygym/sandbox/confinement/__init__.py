"""What the kernel is asked for to keep a process in: system calls, walls, memory, processes, time."""
