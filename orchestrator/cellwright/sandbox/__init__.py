"""Ways of making sandboxes, one file a backend; what they share is in `base`."""
