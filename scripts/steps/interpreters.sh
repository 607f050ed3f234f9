# CPythons that the machine lacks, from Debian unstable into build/interpreters: unpacked there together with
# their own C library and run through its loader. Nothing is installed into the system, and its apt is not touched.

interpreters=build/interpreters

# bring_interpreter VERSION: true if build/interpreters/VERSION/usr/bin/pythonVERSION is there afterwards.
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
        say "CPython $version: cannot be had from Debian unstable through this machine's apt: $(tail -n 1 "$(log_file "python-$version")")"
        rm -rf "$folder.new"
        return 1
    fi
    write_starter "$version" "$folder.new"
    mv "$folder.new" "$folder"
}

# fetch_interpreter VERSION APT_FOLDER TARGET
fetch_interpreter() {
    local version=$1 apt=$2 target=$3 mirror package
    # The mirror that the machine itself uses.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' | sort -u | head -n 1)
    if [ -z "$mirror" ]; then
        echo "apt knows no Debian mirror ('apt-get update' first)"
        return 1
    fi
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >"$apt/sources.list"
    # What the machine's apt does after each update (a container's empties the cache) is not for this one.
    cat >"$apt/apt.conf" <<END
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear Acquire::IndexTargets::deb::DEP-11;
APT::Sandbox::User "$(id -un)";
APT::Install-Recommends "false";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Debug::NoLocking "true";
END
    apt-get -c "$apt/apt.conf" -qq -o APT::Update::Error-Mode=any update || return 1
    apt-get -c "$apt/apt.conf" -qq -y --download-only install \
        "python$version" "python$version-venv" "libpython$version-dev" "libpython$version-testsuite" libstdc++6 || return 1
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$target" || return 1
    done
    rm -rf "$apt"
}

# The program's name becomes a script that starts it by its own loader. --argv0 tells Python where it lies, from
# which it finds its library, and which virtual environment has called it.
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
    # Debian's header of the configuration names another one by a path from /usr/include.
    cp "$folder"/usr/include/*-linux-gnu/python"$version"/pyconfig.h "$folder/usr/include/python$version/pyconfig.h"
}
