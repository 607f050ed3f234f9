"""What is known of one instrument: identity, session, settings, results."""
