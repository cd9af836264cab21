"""gRPC: one unary call an execution."""
