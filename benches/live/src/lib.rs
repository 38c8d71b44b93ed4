//! Nothing but `benches/dispatch.rs`: what it costs to hand a job to a thread.
