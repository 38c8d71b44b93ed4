//! Applications that nobody here wrote: fetched, started, changed and removed.
//!
//! **Problem.** A prediction is worth what it says of programs that know nothing of the one who
//! predicts. Our own demonstrations are built by the people who built the method.
//!
//! **Promise.** [`Wordpress`] is WordPress on nginx, PHP-FPM and MariaDB as Debian packs them, with
//! no file of ours in any of the programs. They are unpacked into a folder and not installed: the
//! machine has nothing new when the folder is gone. They listen on loopback alone, run without
//! root's rights, ask nobody outside, and end with the program that started them.
//!
//! **Not here.** What stops and measures processes is `cavy_groups`.
//!
//! **Reading order.** [`packages`] (fetched and unpacked), [`wordpress`] (started and changed),
//! [`tier`] (CPU time of one tier alone), [`study`] (predictions that are written down before the
//! change is made, and then its truth).

pub mod packages;
pub mod study;
pub mod tier;
pub mod wordpress;

pub use wordpress::{Settings, Tier, Wordpress};
