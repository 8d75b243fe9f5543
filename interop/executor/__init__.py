"""PTX on the CPU."""
