#!/usr/bin/env bash
# Builds the documentation site (mkdocs.yml) into build/docs. Its programs, pinned in docs/requirements.txt, go into a virtual environment
# in build/docs-programs, which is made anew when that file changes.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=build/docs-programs
stamp=$programs/requirements.txt
if ! cmp -s docs/requirements.txt "$stamp"; then
    rm -rf "$programs"
    if ! python3 -m venv "$programs"; then
        echo "docs: cannot make a virtual environment; Debian has it in python3-venv" >&2
        exit 1
    fi
    "$programs/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement docs/requirements.txt
    # Fails when a package of the closure is not pinned.
    "$programs/bin/pip" check >&2
    cp docs/requirements.txt "$stamp"
fi

# The theme would print news of its authors. Not with --quiet: warnings that are not printed are not counted, and fail nothing.
if ! messages=$(NO_MKDOCS_2_WARNING=1 "$programs/bin/mkdocs" build --strict --clean 2>&1); then
    printf '%s\n' "$messages" >&2
    exit 1
fi

# A page that loads a font, script, style or picture from another host tells that host who reads it. The theme's script does so for
# diagrams (mermaid) and for a link to a repository (repo_url) alone.
foreign=$(grep -rnoE '<(script|img|iframe|source)[^>]* src="?(https?:)?//[^"> ]*|<link[^>]* rel="?(stylesheet|preload|preconnect|icon|dns-prefetch)[^>]*href="?(https?:)?//[^"> ]*|class="?mermaid|data-md-component="?source["> ]' \
    --include='*.html' build/docs || true)
if [ -n "$foreign" ]; then
    printf 'docs: pages load from other hosts:\n%s\n' "$foreign" >&2
    exit 1
fi
echo "docs: build/docs/index.html"
