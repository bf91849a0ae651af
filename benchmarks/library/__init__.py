"""What several benchmarks use; the scripts beside this folder import it as `library`."""
