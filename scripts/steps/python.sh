# Virtual environments: .venv from the machine's python3, build/venv-3.13 from a CPython 3.13 where there is one.
# Versions are pinned in constraints.txt; which packages a job needs is said once, by pyproject.toml's extras.

venv=.venv
venv_313=build/venv-3.13

# runs PYTHON CODE: true if that interpreter starts (a version manager's stand-in may not) and CODE passes.
runs() { "$1" -I -c "$2" >/dev/null 2>&1; }

is_supported() { runs "$1" 'import sys; assert (3, 11) <= sys.version_info < (3, 15)'; }
has_venv() { runs "$1" 'import ensurepip, venv'; }
has_headers() {
    runs "$1" 'import os, sysconfig; assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))'
}
# CPython's own tests of asyncio, which the conformance tests run on Penstock's loop.
has_testsuite() { runs "$1" 'import test.test_asyncio'; }

real_path() { "$1" -I -c 'import os, sys; print(os.path.realpath(sys.executable))'; }

is_distribution_python() {
    case $(real_path "$1") in
    /usr/bin/*) command -v dpkg >/dev/null 2>&1 ;;
    *) false ;;
    esac
}

# The interpreter for .venv: the machine's python3, or else the oldest supported one by name.
find_python() {
    local candidate
    for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
        if is_supported "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
}

# What .venv is made of, where it is made; else what it will be made of.
find_venv_python() {
    if is_supported "$venv/bin/python"; then real_path "$venv/bin/python"; else find_python; fi
}

# A CPython 3.13 that starts and can hold extensions: by name, then among what pyenv keeps.
find_python_313() {
    local candidate
    for candidate in python3.13 \
        "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}"/versions/3.13*/bin/python3.13; do
        if runs "$candidate" 'import sys; assert sys.version_info[:2] == (3, 13) and sys._is_gil_enabled()' &&
            has_venv "$candidate" && has_headers "$candidate"; then
            real_path "$candidate"
            return
        fi
    done
}

# require_venv EXTRA...: .venv with what the package and these extras need.
require_venv() {
    local python
    if ! is_supported "$venv/bin/python"; then
        python=$(find_python)
        [ -n "$python" ] || fail "no Python from 3.11 to 3.14 found; install one (Debian 12: apt-get install python3 python3-venv python3-dev)"
        create_venv "$python" "$venv"
    fi
    fill_venv "$venv" "$@"
}

# second_venv EXTRA...: the same on CPython 3.13; false, with a word, where the machine has none.
second_venv() {
    local python
    if ! runs "$venv_313/bin/python" 'import sys; assert sys.version_info[:2] == (3, 13)'; then
        python=$(find_python_313)
        if [ -z "$python" ]; then
            say "CPython 3.13: not on this machine (looked for python3.13 on the path and under pyenv), going without"
            return 1
        fi
        create_venv "$python" "$venv_313"
    fi
    fill_venv "$venv_313" "$@"
}

create_venv() {
    say "$2: creating from $1 ($("$1" -I -c 'import platform; print(platform.python_version())'))"
    has_venv "$1" || fail "$1 lacks the modules venv and ensurepip; install them (Debian: apt-get install python3-venv)"
    rm -rf "$2"
    "$1" -m venv "$2" || fail "could not create the virtual environment $2"
}

# fill_venv VENV EXTRA...: installs the pinned packages that the record in the venv does not list yet.
fill_venv() {
    local target=$1 record=$1/penstock-requirements extra
    shift
    local wanted lacking=()
    wanted=$("$target/bin/python" -I scripts/requirements.py stamp "$@")
    while read -r line; do
        grep -qxsF "$line" "$record" || lacking+=("${line%% *}")
    done <<<"$wanted"
    if [ ${#lacking[@]} -gt 0 ]; then
        say "$target: installing packages for ${lacking[*]}"
        local lines
        lines=$("$target/bin/python" -I scripts/requirements.py list "$@")
        # shellcheck disable=SC2086 # one requirement a line
        printf '%s\n' "$lines" >"$record.txt"
        "$target/bin/python" -m pip install --quiet --disable-pip-version-check \
            --constraint constraints.txt --requirement "$record.txt" ||
            fail "pip could not install into $target; mend the network or pip's configuration, then run again"
        rm -f "$record.txt"
        { [ ! -e "$record" ] || cat "$record"; printf '%s\n' "$wanted"; } | sort -u >"$record.new"
        mv "$record.new" "$record"
    else
        say "$target: up to date"
    fi
    link_package "$target"
}

# Makes the source tree importable in the venv and gives it the 'penstock' command.
link_package() {
    local site
    site=$("$1/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    write_if_changed "$site/penstock-source-tree.pth" "$root/python"
    # The interpreter's path may hold blanks or be too long for a '#!' line, so /bin/sh starts it.
    write_if_changed "$1/bin/penstock" "#!/bin/sh
'''exec' '$root/$1/bin/python' \"\$0\" \"\$@\"
' '''
import sys

from penstock.cli import main

sys.exit(main())"
    chmod +x "$1/bin/penstock"
}

write_if_changed() {
    [ "$(cat "$1" 2>/dev/null)" = "$2" ] || printf '%s\n' "$2" >"$1"
}
