"""The inside: what runs in the sandbox, beside the model's code. It never imports `cellwright`."""
