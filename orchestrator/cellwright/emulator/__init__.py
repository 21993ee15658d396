"""A server of the Responses API that plays a script, so that whoever asks one can be tried offline."""
