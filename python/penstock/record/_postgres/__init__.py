"""PostgreSQL as a sink: rows as spooled COPYs, tables made when they are needed."""
