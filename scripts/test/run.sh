#!/usr/bin/env bash
# Runs the tests of scripts in this folder, and counts: a last line "scripts: N ok, M not ok", status 1 when one has failed.
set -euo pipefail

good=0 bad=0
for file in "$(dirname "$0")"/*.test.sh; do
    name=$(basename "$file" .test.sh) status=0
    said=$("$file" 2>&1) || status=$?
    while IFS= read -r line; do
        case $line in
            'ok - '*) good=$((good + 1)) line="ok - $name: ${line#ok - }" ;;
            'not ok - '*) bad=$((bad + 1)) line="not ok - $name: ${line#not ok - }" ;;
        esac
        [ "$line" = end ] || echo "$line"
    done <<<"$said"
    # One that ends early, or prints nothing, has not passed either.
    if [ "$(tail -n 1 <<<"$said")" != end ]; then
        bad=$((bad + 1))
        echo "not ok - $name # ended with status $status before its end"
    fi
done
echo "scripts: $good ok, $bad not ok"
[ $bad = 0 ] && [ $good -gt 0 ]
