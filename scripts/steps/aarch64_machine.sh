# A machine to try the wheel for aarch64 on: Debian 12 for arm64 and QEMU's user emulation, unpacked to build/dist/aarch64.
# Nothing is installed in the system, and its apt configuration is unchanged. scripts/emulated runs commands on it.

aarch64=build/dist/aarch64

# What the wheel is compiled against; what it runs on is the same and what Python needs besides. There is no compiler.
aarch64_packages='base-passwd python3.11 python3.11-venv libpython3.11-dev liburing-dev zlib1g-dev libstdc++6 dash bash coreutils
mount netbase procps socat openssl sqlite3 tzdata'

# fetch_aarch64: true if the machine exists afterwards.
fetch_aarch64() {
    if [ -x "$aarch64/qemu-aarch64" ]; then return; fi
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
        say "aarch64: no apt-get to fetch Debian's packages for arm64 with, continuing without them"
        return 1
    fi
    say "aarch64: fetching Debian 12 for arm64, and QEMU from Debian unstable, into $aarch64"
    rm -rf "$aarch64"
    mkdir -p "$aarch64/root"
    if ! { unpack_arm64 "$root/$aarch64" && unpack_emulator "$root/$aarch64"; } >"$(log_file aarch64)" 2>&1; then
        say "aarch64: cannot be fetched through this machine's apt: $(tail -n 1 "$(log_file aarch64)")"
        return 1
    fi
}

unpack_arm64() {
    local apt=$1/apt package
    prepare_apt "$apt" bookworm arm64 || return 1
    # shellcheck disable=SC2086 # package names hold no blanks
    apt-get -c "$apt/apt.conf" -qq -y --download-only install $aarch64_packages || return 1
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$1/root" || return 1
    done
    # The packages' scripts, which write these files, would have to run emulated.
    cp "$1/root/usr/share/base-passwd/passwd.master" "$1/root/etc/passwd" || return 1
    cp "$1/root/usr/share/base-passwd/group.master" "$1/root/etc/group" || return 1
    printf '127.0.0.1 localhost\n::1 localhost\n' >"$1/root/etc/hosts"
    rm -rf "$apt"
}

# Debian 12's own QEMU, 7.2, does not know the ioctls of termios2, without which no serial port opens. It is statically
# linked, so it needs no other package of unstable.
unpack_emulator() {
    local apt=$1/apt
    prepare_apt "$apt" unstable || return 1
    (cd "$apt/cache/archives" && apt-get -c "$apt/apt.conf" -qq download qemu-user) || return 1
    dpkg-deb --fsys-tarfile "$apt"/cache/archives/qemu-user_*.deb |
        tar --extract --to-stdout ./usr/bin/qemu-aarch64 >"$1/qemu-aarch64.new" || return 1
    rm -rf "$apt"
    chmod +x "$1/qemu-aarch64.new"
    mv "$1/qemu-aarch64.new" "$1/qemu-aarch64"
}
