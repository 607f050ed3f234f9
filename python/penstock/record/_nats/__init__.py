"""NATS JetStream: a connection, its stream, and rows as messages of Arrow batches."""
