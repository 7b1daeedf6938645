#!/usr/bin/env bash
# Sets up the environment, once, and recreates the papers' tables and figures: see ./reproduce.sh --help
set -euo pipefail
unset PYTHONPATH  # another package called lib would be found before ours
self="${BASH_SOURCE[0]}"
while [ -h "$self" ]; do  # called through a link
    link="$(readlink "$self")"
    case "$link" in /*) self="$link" ;; *) self="$(dirname "$self")/$link" ;; esac
done
root="$(cd "$(dirname "$self")" && pwd)"

find_python() {  # prints the first Python that is new enough
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.11 python3.12 python3.13; fi
    for candidate in "$@"; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "There is no Python 3.11 or newer here (tried: $*): install one, or set PYTHON to its path." >&2
    return 1
}

set_up() {  # sets $python, whose environment has the packages of these lists of requirements/: base ...
    lists=()
    for list in "$@"; do lists+=("requirements/$list.txt"); done
    if [ -n "${CONDA_PREFIX:-}" ] && [ "${CONDA_DEFAULT_ENV:-}" = "$(sed -n 's/^name: //p' "$root/environment.yml")" ]; then
        python="$CONDA_PREFIX/bin/python"
        (cd "$root" && "$python" -m companion.pins "${lists[@]}")  # its name says nothing of its versions
        return
    fi
    python="$root/.venv/bin/python"
    # A note is written last, so that an install that was stopped or is out of date is done again.
    note="$root/.venv/installed-$(echo "$*" | tr ' ' '+')"
    wanted="$root
$(cd "$root" && cat "${lists[@]}" requirements/constraints.txt pyproject.toml)"
    if "$python" -c '' 2>/dev/null && [ "$(cat "$note" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        base="$(find_python)"
        echo "Making .venv"
        "$base" -m venv --clear "$root/.venv"
    fi
    echo "Installing the packages of ${lists[*]}: minutes, once"
    "$python" -m pip install --quiet --disable-pip-version-check "${lists[@]/#/-r$root/}" -c "$root/requirements/constraints.txt"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e "$root"
    echo "$wanted" > "$note"
}

run_tests() {  # all; --quick: three notebooks alone; --numerics: notebooks alone, under other arithmetic
    cd "$root"
    case "${1:-}" in
        "" | --quick) ;;
        --numerics) "$python" -m tests.numerics "${@:2}"; return ;;
        *) echo "There is no ./reproduce.sh test $1: choose --quick or --numerics, or leave it out." >&2; return 2 ;;
    esac
    status=0
    echo "Style, and the direction of imports"
    "$python" -m ruff check . || status=$?
    "$python" -c 'from importlinter.cli import lint_imports_command as check; check()' || status=$?
    if ! command -v chromium chromium-browser google-chrome >/dev/null; then
        echo "No Chromium is here, so the tests of pages in a browser are skipped: on Debian, apt-get install chromium"
    fi
    echo "Tests"
    cores="$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)"
    "$python" -m pytest tests -q -p no:nbval -n "$((cores > 1 ? 2 : 0))" || status=$?
    echo "Notebooks against their stored outputs"
    "$python" -m tests.notebooks "$@" || status=$?
    return "$status"
}

# The caller's folder stays current, since --model may name one in it; -P keeps it off Python's path.
case "${1:-}" in
    -h | --help)
        base="$(find_python)"
        PYTHONPATH="$root" exec "$base" -P -m companion --help ;;
    test) set_up base test; run_tests "${@:2}" ;;
    lab) set_up base; exec "$python" -m jupyterlab "$root/notebooks" "${@:2}" ;;
    *)
        set_up base
        exec "$python" -P -m companion "$@" ;;
esac
