"""A run's cells, done again without the model, and compared with the record."""
