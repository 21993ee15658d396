"""What a model is instructed with: one file for the task and one for each tool, and how they are read."""
