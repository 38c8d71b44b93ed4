//! The transports Homa is compared with, each from its own specification.
