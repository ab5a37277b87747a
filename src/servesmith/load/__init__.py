"""The measuring client: requests on the wire, stamped when bytes arrive, parsed after the stream."""
