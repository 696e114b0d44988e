"""What all families of models share about speaking: who watches it, how long it takes, how it streams."""
