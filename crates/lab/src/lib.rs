//! cavy-lab
