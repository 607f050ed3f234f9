"""How a page measures: cores, clocks, rounds, processes, system calls, tables and plots."""
