#!/usr/bin/env bash
# prose.sh [lower]: counts phrases of the old voice (prose.txt) in the documentation, in comments and strings of the crates, and in the kernel
# series. Fails when a count is above the number in prose.txt, and when it is below: then `prose.sh lower` writes the smaller number.
#
# PROSE names the file with the numbers, PROSE_ROOT the tree that is counted; for the test.
set -euo pipefail
here=$(dirname "$0")
list=$(realpath "${PROSE:-$here/prose.txt}")
cd "${PROSE_ROOT:-$here/..}"

mode=${1:-check}
case $mode in check | lower) ;; *) echo "prose: \"$mode\" is no mode; accepted are lower, or none" >&2; exit 2 ;; esac

texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT

# A phrase counts also where a line ends in it: lines are joined, without what marks them as comments.
joined() { sed -E 's,^[[:space:]]*(//[/!]?|/?\*+/?|#)?[[:space:]]*,,' | tr -s '[:space:]' ' '; }

# Markdown without fences and without the pages of verbs: output of a program is counted in the program.
find README.md CHANGELOG.md CONTRIBUTING.md docs -name '*.md' ! -path 'docs/reference/verbs/*' | sort | xargs awk 'FNR == 1 { code = 0 } /^ *```/ { code = !code; next } !code' | joined >"$texts/docs"
find crates -path '*/src/*' -name '*.rs' | sort | xargs cat | joined >"$texts/code"
# Of patches, descriptions and what they add.
find kernel/patches -type f | sort | xargs sed -E '/^[-@ ]/d; s/^\+//' | joined >"$texts/kernel"

rose=0 fell=0
while IFS= read -r line; do
    case $line in '' | '#'*) echo "$line" >>"$texts/list"; continue ;; esac
    # shellcheck disable=SC2034 # read by name
    read -r docs code kernel pattern <<<"$line"
    new=()
    for scope in docs code kernel; do
        found=$({ grep -oiE -- "$pattern" "$texts/$scope" || true; } | wc -l)
        accepted=${!scope}
        if [ "$found" -gt "$accepted" ]; then
            rose=$((rose + 1))
            echo "prose: $scope has $found times \"$pattern\", more than $accepted: say it in another way (CONTRIBUTING.md, Prose)" >&2
            found=$accepted
        elif [ "$found" -lt "$accepted" ]; then
            fell=$((fell + 1))
            [ "$mode" = lower ] || echo "prose: $scope has $found times \"$pattern\", fewer than $accepted: run scripts/prose.sh lower" >&2
        fi
        new+=("$found")
    done
    printf '%5d %5d %6d  %s\n' "${new[@]}" "$pattern" >>"$texts/list"
done <"$list"

if [ "$mode" = lower ]; then
    cat "$texts/list" >"$list"
    fell=0
fi
[ $((rose + fell)) = 0 ]
