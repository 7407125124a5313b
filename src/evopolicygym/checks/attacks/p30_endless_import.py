"""P30: never ends being imported

submission: init_timeout
episodes: ok
promised: bubblewrap, process, none
played: 1
"""

while True:
    pass
