# Downloads CPythons that the machine lacks from Debian unstable to build/interpreters, together with their C library,
# through whose loader they run. Nothing is installed in the system, and its apt configuration is unchanged.

interpreters=build/interpreters

# bring_interpreter VERSION: true if build/interpreters/VERSION/usr/bin/pythonVERSION exists afterwards.
bring_interpreter() {
    local version=$1 folder=$interpreters/$1
    if [ -x "$folder/usr/bin/python$version" ]; then return; fi
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
        say "CPython $version: this machine has none and no apt-get to fetch one with"
        return 1
    fi
    say "CPython $version: fetching it from Debian unstable into $folder"
    rm -rf "$folder" "$folder.new"
    mkdir -p "$folder.new"
    if ! fetch_interpreter "$version" "$root/$interpreters/apt" "$folder.new" >"$(log_file "python-$version")" 2>&1; then
        say "CPython $version: cannot be downloaded from Debian unstable through this machine's apt: $(tail -n 1 "$(log_file "python-$version")")"
        rm -rf "$folder.new"
        return 1
    fi
    write_starter "$version" "$folder.new"
    mv "$folder.new" "$folder"
}

# fetch_interpreter VERSION APT_FOLDER TARGET
fetch_interpreter() {
    local version=$1 apt=$2 target=$3 package
    prepare_apt "$apt" unstable || return 1
    apt-get -c "$apt/apt.conf" -qq -y --download-only install \
        "python$version" "python$version-venv" "libpython$version-dev" "libpython$version-testsuite" libstdc++6 || return 1
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$target" || return 1
    done
    rm -rf "$apt"
}

# The program's name becomes a script that starts it through its own loader. With --argv0 Python finds its library, and
# the virtual environment that has called it.
write_starter() {
    local version=$1 folder=$2 program library
    program=usr/bin/python$version
    mv "$folder/$program" "$folder/$program.elf"
    library=$(dirname "$(cd "$folder" && echo usr/lib/*/libc.so.6)")
    cat >"$folder/$program" <<END
#!/bin/sh
root='$root/$interpreters/$version'
exec "\$root"/usr/lib64/ld-linux*.so.* --argv0 "\$0" --library-path "\$root/$library" "\$root/$program.elf" "\$@"
END
    chmod +x "$folder/$program"
    # Debian's configuration header includes another one by a path relative to /usr/include.
    cp "$folder"/usr/include/*-linux-gnu/python"$version"/pyconfig.h "$folder/usr/include/python$version/pyconfig.h"
}
