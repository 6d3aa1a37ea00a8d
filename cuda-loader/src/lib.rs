//! Resolves the CUDA driver at run time, so that one binary starts with or without a GPU.
