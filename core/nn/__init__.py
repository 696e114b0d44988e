"""Layers that the model families share: each takes its state as an argument, and computes on engine tensors."""
