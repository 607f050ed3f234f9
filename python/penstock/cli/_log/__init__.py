"""``penstock log``: checking, salvaging and reading append logs."""
