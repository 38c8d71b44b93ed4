//! cavy-sched
