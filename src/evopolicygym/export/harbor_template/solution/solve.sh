#!/bin/bash
# Submits the reference policy, which a person wrote for this environment. The verifier closes the run.
set -euo pipefail
cd /workspace
cp -r /solution/system/. system/
./judge submit 0
