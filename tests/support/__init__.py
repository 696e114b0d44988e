"""What tests share: the data that the repository carries, and checkpoints made from it."""
