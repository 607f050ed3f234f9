"""One open tty: the kernel's numbers and calls, settings, locks, modes."""
