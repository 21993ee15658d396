"""Long ones: what must not grow, however long a session lasts. `bash scripts/soak.sh` runs them whole."""
