#!/usr/bin/env bash
# Official checkpoints from Hugging Face, for ./convert.py. Everything it does is ggtts.cli.fetch (-h tells more).
#
# PYTHON names the interpreter that has ggtts; without it, .venv of this checkout is used, or else python3.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
python=${PYTHON-}
[[ -n $python ]] || python=$here/.venv/bin/python
[[ -n ${PYTHON-} || -x $python ]] || python=python3
if ! "$python" -c 'import ggtts.cli' 2> /dev/null; then
    echo "checkpoints.sh: $python has no ggtts: install it (make demo), or name another interpreter with PYTHON=..." >&2
    exit 1
fi
exec "$python" -m ggtts.cli.fetch checkpoints "$@"
