"""The measured web applications, and the servers that run them."""
