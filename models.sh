#!/usr/bin/env bash
# Converted models, ready to speak. Everything it does is ggtts.cli.fetch (-h tells more).
set -euo pipefail
# shellcheck source=cli/run_fetch.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/cli/run_fetch.sh" models "$@"
