#!/usr/bin/env bash
# Smaller copies of every model of type F32 in models/. Everything it does is ggtts.cli.fetch (-h tells more).
set -euo pipefail
# shellcheck source=cli/run_fetch.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/cli/run_fetch.sh" quantize "$@"
