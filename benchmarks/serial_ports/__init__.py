"""The programs of the serial pages: each measures itself and prints one line of JSON."""
