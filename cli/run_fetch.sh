# shellcheck shell=bash
# Sourced by checkpoints.sh, models.sh and quantize.sh at the root: runs ggtts.cli.fetch with the arguments.
#
# PYTHON names the interpreter that has ggtts; without it, .venv of this checkout is used, or else python3.

python=${PYTHON-}
[[ -n $python ]] || python=$(dirname "${BASH_SOURCE[0]}")/../.venv/bin/python
[[ -n ${PYTHON-} || -x $python ]] || python=python3
if ! "$python" -c 'import ggtts.cli' 2> /dev/null; then
    echo "$(basename "$0"): $python has no ggtts: install it (make demo), or name another interpreter with PYTHON=..." >&2
    exit 1
fi
exec "$python" -m ggtts.cli.fetch "$@"
