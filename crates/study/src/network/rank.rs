//! Transports against each other: what each would buy, and what it costs whom.
