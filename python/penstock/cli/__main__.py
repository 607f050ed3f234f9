"""``python -m penstock.cli`` is the ``penstock`` command."""

from penstock.cli import main

raise SystemExit(main())
