#!/usr/bin/env bash
# Does the prose check fail when an old phrase comes, and when one goes without its number?
set -euo pipefail
. "$(dirname "$0")/lib.sh"

export PROSE=$scratch/prose.txt PROSE_ROOT=$scratch/tree
mkdir -p "$PROSE_ROOT"/{docs/more,crates/one/src,crates/one/tests,kernel/patches}
touch "$PROSE_ROOT"/{README,CHANGELOG,CONTRIBUTING}.md

# tree: texts with one "whoever" in each scope, in a form that counts, and others in forms that do not.
tree() {
    printf 'The reader.\n\n```text\nwhoever\n```\n' >"$PROSE_ROOT/README.md"
    printf '# Page\n\nWhoever reads.\n' >"$PROSE_ROOT/docs/more/page.md"
    printf '//! First.\nfn f() {\n    // The\n    // whoever.\n}\n' >"$PROSE_ROOT/crates/one/src/lib.rs"
    printf '// whoever\n' >"$PROSE_ROOT/crates/one/tests/it.rs"
    printf 'Subject: x\n\n+ * for whoever\n- * not whoever\n  * nor whoever\n' >"$PROSE_ROOT/kernel/patches/0001-x.patch"
}
list() {
    printf '# comment\n%s  \\bwhoever\\b\n    0     1      0  \\bThe whoever\\b\n' "$1" >"$PROSE"
}
# check NAME STATUS TEXT [MODE]
check() {
    local said status=0
    said=$("$root/scripts/prose.sh" ${4:+"$4"} 2>&1) || status=$?
    expect "$1: status" $status "$2"
    contains "$1" "$said" "$3"
}

tree
list '1 1 1'
check "as often as accepted" 0 ""
list '0 1 1'
check "a phrase comes to the documentation" 1 'docs has 1 times "\bwhoever\b", more than 0'
list '1 0 1'
check "a phrase comes to the crates" 1 'code has 1 times "\bwhoever\b", more than 0'
list '1 1 0'
check "a phrase comes to the kernel series" 1 'kernel has 1 times "\bwhoever\b", more than 0'
list '1 1 2'
check "a phrase goes, and its number stays" 1 'kernel has 1 times "\bwhoever\b", fewer than 2: run scripts/prose.sh lower'
check "the number is lowered" 0 "" lower
check "and then it is right" 0 ""
expect "what is written" "$(sed -n 1,2p "$PROSE")" "$(printf '# comment\n    1     1      1  \\bwhoever\\b')"
list '0 2 1'
check "lowering raises no number" 1 'docs has 1 times "\bwhoever\b", more than 0' lower
expect "but lowers the others" "$(sed -n 2p "$PROSE")" '    0     1      1  \bwhoever\b'
echo 'Whoever, and whoever.' >>"$PROSE_ROOT/docs/more/page.md"
list '1 1 1'
check "each phrase counts, in any case" 1 'docs has 3 times'
check "another mode is refused" 2 '"raise" is no mode; accepted are lower, or none' raise
echo end
exit $failed
