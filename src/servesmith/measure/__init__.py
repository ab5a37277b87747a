"""What happened to each request, and the numbers that follow from it. Pure: nothing here can run a server."""
