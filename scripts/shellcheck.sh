#!/usr/bin/env bash
# Checks all scripts with shellcheck, warnings denied: files named *.sh, and those that begin with the name of a shell.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts() {
    local file first
    find . \( -name .git -o -name 'target*' -o -path ./build \) -prune -o -type f -print0 | while IFS= read -r -d '' file; do
        case $file in
            *.sh) printf '%s\0' "$file" ;;
            *.rs | *.c | *.h | *.toml | *.patch | *.txt | *.md | *.svg | *.json) ;;
            *)
                first=$(head -c 64 "$file" | tr -d '\0' | sed -n 1p)
                case $first in '#!'*sh) printf '%s\0' "$file" ;; esac
                ;;
        esac
    done
}

scripts | xargs -0 shellcheck --severity=warning --external-sources --source-path=SCRIPTDIR --source-path=kernel
