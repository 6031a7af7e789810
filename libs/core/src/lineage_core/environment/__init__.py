"""What processes of all kinds need of their machine: secrets, private files, settings that are wrong."""
