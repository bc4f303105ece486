"""The grammar of the engine process log: prefix, batch lines, time stats, events, server_args."""
