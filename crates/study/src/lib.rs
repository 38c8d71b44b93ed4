//! cavy-study
