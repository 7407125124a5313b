"""Serves a file of weights by llama.cpp's own server on one thread, with one slot, until it is killed.

Run by a Python that has the package xllamacpp: model_server.py WEIGHTS NAME PORT CONTEXT
"""

import sys
from threading import Event

import xllamacpp

weights, name, port, context = sys.argv[1:]
parameters = xllamacpp.CommonParams()
parameters.model.path = weights
parameters.model_alias = {name}
parameters.hostnames, parameters.port = ["127.0.0.1"], int(port)
parameters.n_ctx, parameters.n_parallel = int(context), 1
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
parameters.use_jinja = parameters.endpoint_metrics = True
server = xllamacpp.Server(parameters)
Event().wait()
