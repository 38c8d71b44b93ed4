//! Tests only; see `tests/`.
