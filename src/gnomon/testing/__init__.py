"""Testing: handlers of yours without a server, or through the real engine on a virtual clock."""
