#!/usr/bin/env bash
# Official checkpoints from Hugging Face, for ./convert.py. Everything it does is ggtts.cli.fetch (-h tells more).
set -euo pipefail
# shellcheck source=cli/run_fetch.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/cli/run_fetch.sh" checkpoints "$@"
