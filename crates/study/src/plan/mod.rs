//! Plans: what a user wants to know, as a TOML file.
//!
//! A plan says at its top what `kind` it is of. The keys that all plans share are those of
//! [`Frame`]; the others belong to the kind, whose structs read the file, check it, and generate
//! the JSON schema and the reference of keys. The project's own figures are plans like any other.

pub mod error;
pub mod files;
pub mod frame;
mod mistake;
pub mod path;
pub mod read;
pub mod reference;

pub use error::PlanError;
pub use files::Files;
pub use frame::{Frame, Sweep, World};
pub use mistake::nearest;
pub use read::{Loaded, Text};
