"""The tools of a measurement: cores, clocks, rounds, processes, system calls, tables and plots."""
