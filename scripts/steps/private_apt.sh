# An apt of its own for another Debian or another architecture: it downloads packages, installs nothing, and leaves the
# system's apt unchanged.

# prepare_apt FOLDER SUITE [ARCHITECTURE [KIND]]: writes FOLDER/apt.conf and fetches the list of packages into FOLDER. False, with
# the reason on its output, where there is no Debian mirror. KIND deb-src is for sources.
prepare_apt() {
    local apt=$1 suite=$2 architecture=${3:-$(dpkg --print-architecture)} kind=${4:-deb} mirror
    # The mirror that the machine itself uses.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' | sort -u | head -n 1)
    if [ -z "$mirror" ]; then
        echo "apt knows no Debian mirror ('apt-get update' first)"
        return 1
    fi
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
    # The hooks of the machine's apt (a container's empties the cache after each update) must not run here.
    cat >"$apt/apt.conf" <<END
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear APT::Architectures;
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
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
    apt-get -c "$apt/apt.conf" -qq -o APT::Update::Error-Mode=any update
}
