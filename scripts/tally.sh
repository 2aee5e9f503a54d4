# shellcheck shell=bash
#
# Sourced by test.sh: counts skipped tests, and what test runners print.

# skips FILE ACCEPTED: prints how many tests were skipped, by reason; fails when there are more than accepted. FILE has a line
# "needs ..." for each, ACCEPTED lines "COUNT needs ..." and comments.
skips() {
    echo "skipped tests, by reason"
    { grep -E '^[0-9]+ ' "$2" | sed 's/^/accepted /' || true; LC_ALL=C sort "$1" | uniq -c | sed -E 's/^ */found /'; } | awk '
        { kind = $1; count = $2; sub(/^[a-z]+ [0-9]+ /, "") }
        kind == "accepted" { accepted[$0] = count; next }
        {
            printf "  %d %s (accepted: %d)\n", count, $0, accepted[$0]
            found[$0] = count
            reasons++
            if (count > accepted[$0]) more = 1
        }
        END {
            for (reason in accepted) if (found[reason] < accepted[reason]) fewer = 1
            if (!reasons) print "  none"
            if (fewer) print "  fewer than accepted"
            if (more) print "  more than accepted: install what is missing, or add the line \"COUNT needs ...\" to scripts/skips.txt"
            exit more
        }'
}

# closing FOLDER: prints the last lines of the kernel's tests, and the sum over all logs in the folder.
closing() {
    cat "$1"/*.log | grep -E '^kernel [a-z]+: [0-9]+ ok, [0-9]+ not ok$' || true
    # For cargo, a test that was skipped has passed.
    cat "$1"/*.log | awk -v "skipped=$(wc -l <"$1/skips")" '
        /^test result: / { passed += $4; failed += $6; ignored += $8 }
        /^(kernel [a-z]+|scripts): [0-9]+ ok, [0-9]+ not ok$/ { passed += $(NF - 4); failed += $(NF - 2) }
        END { printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped + ignored }'
}
