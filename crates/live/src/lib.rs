//! The world of real threads, sockets and clocks, on Linux.
