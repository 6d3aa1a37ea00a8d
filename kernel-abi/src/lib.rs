//! What host and device agree on: problems, launch parameters, kernel lists and index arithmetic.
