"""SQL over recordings, by DuckDB."""
