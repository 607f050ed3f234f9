# The output of the scripts: one prefix, progress on stdout, failures on stderr.

say() { printf 'penstock: %s\n' "$*"; }

fail() {
    printf 'penstock: error: %s\n' "$*" >&2
    exit 1
}
