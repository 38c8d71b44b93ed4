//! Plans of every kind, run; and all other tests of the room `kinds`.
//!
//! One program in a package of its own. Reading, drawing and ranking plans is generic, so whoever
//! tests it compiles it again; in the room `kinds`, whose worlds are optimised, that took seven
//! minutes of a processor for eight programs. Unit tests there would compile the room once more.

mod coords;
mod logs;
mod mistakes;
mod network;
mod packet_digests;
mod regions;
mod runner;
mod search;
mod sections;
mod server;
mod services;
mod space;
mod transports;
