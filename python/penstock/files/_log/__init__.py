"""The append log: its format, its file, its writer and its readers."""
