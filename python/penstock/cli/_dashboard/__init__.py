"""The dashboard beside a recording or alone: what it shows, its options, its page."""
