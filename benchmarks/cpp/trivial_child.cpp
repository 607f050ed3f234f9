// The child of the spawn page: its exit code tells the parent that it really ran.
int main() {
    return 7;
}
