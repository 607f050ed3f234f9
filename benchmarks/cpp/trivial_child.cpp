// The child of the spawn page; its exit code proves to the parent that it ran.
int main() {
    return 7;
}
