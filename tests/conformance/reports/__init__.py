"""Faults that users of event loops reported, each as a short program with one right outcome."""
