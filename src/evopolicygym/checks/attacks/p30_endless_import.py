"""P30: never ends being imported

submission: init_timeout
episodes: ok
played: 1
"""

while True:
    pass
