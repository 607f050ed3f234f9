# Virtual environments: .venv from the machine's python3, and build/venv-VERSION for each further CPython from 3.11 to
# 3.14 that the machine has, or that scripts/steps/interpreters.sh has downloaded.
# constraints.txt pins versions; only pyproject.toml's extras and dependency groups say which packages a job needs.

venv=.venv

# runs PYTHON CODE: true if that interpreter starts (a version manager's shim may not) and CODE succeeds.
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

# The interpreter of .venv if it exists, else the one that it will be created from.
find_venv_python() {
    if is_supported "$venv/bin/python"; then real_path "$venv/bin/python"; else find_python; fi
}

version_of() { "$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

is_version() { runs "$1" "import sys; assert '%d.%d' % sys.version_info[:2] == '$2'"; }

# find_cpython VERSION: one that starts and has headers: by name, under pyenv, or among the downloaded ones.
find_cpython() {
    local version=$1 candidate
    for candidate in "python$version" \
        "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}"/versions/"$version"[.-]*/bin/"python$version" \
        "$root/build/interpreters/$version/usr/bin/python$version"; do
        if is_version "$candidate" "$version" && has_headers "$candidate" &&
            runs "$candidate" 'import sys, venv; assert getattr(sys, "_is_gil_enabled", lambda: True)()'; then
            real_path "$candidate"
            return
        fi
    done
}

# require_venv NAME...: .venv with the requirements of the package and these extras or dependency groups.
require_venv() {
    local python
    if ! is_supported "$venv/bin/python"; then
        python=$(find_python)
        [ -n "$python" ] || fail "no Python from 3.11 to 3.14 found; install one (Debian 12: apt-get install python3 python3-venv python3-dev)"
        create_venv "$python" "$venv"
    fi
    fill_venv "$venv" "$@"
}

# further_venv VERSION EXTRA...: the same in build/venv-VERSION; false if no such CPython is available.
further_venv() {
    local version=$1 target=build/venv-$1 python
    shift
    if ! is_version "$target/bin/python" "$version"; then
        python=$(find_cpython "$version")
        [ -n "$python" ] || return 1
        create_venv "$python" "$target"
    fi
    fill_venv "$target" "$@"
}

create_venv() {
    say "$2: creating from $1 ($("$1" -I -c 'import platform; print(platform.python_version())'))"
    local options=()
    if [ "$2" = "$venv" ]; then
        has_venv "$1" || fail "$1 lacks the modules venv and ensurepip; install them (Debian: apt-get install python3-venv)"
    else
        options=(--without-pip) # .venv's pip serves all
    fi
    rm -rf "$2"
    "$1" -m venv "${options[@]}" "$2" || fail "could not create the virtual environment $2"
}

# fill_venv VENV NAME...: installs, by .venv's pip, the pinned packages that the venv's record does not list.
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
        "$venv/bin/python" -m pip --python "$target/bin/python" install --quiet --disable-pip-version-check \
            --constraint constraints.txt --requirement "$record.txt" ||
            fail "pip could not install into $target; fix the network or pip's configuration, then run again"
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
    # The interpreter's path may contain blanks or be too long for a '#!' line, so /bin/sh starts it.
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
