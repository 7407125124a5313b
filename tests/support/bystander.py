"""A client in a process of its own: asks a judge for /info until its own stdin ends, then prints how long each took."""

import http.client
import json
import select
import sys
from time import perf_counter
from urllib.parse import urlsplit

PAUSE_S = 0.01

if __name__ == "__main__":
    address = urlsplit(sys.argv[1])
    waited_s = []
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        began = perf_counter()
        client = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        client.request("GET", f"{address.path}/info")
        answer = client.getresponse()
        answer.read()
        waited_s.append(perf_counter() - began)
        client.close()
        if answer.status != http.HTTPStatus.OK:
            sys.exit(f"the judge answered {answer.status}")
    print(json.dumps(waited_s))
