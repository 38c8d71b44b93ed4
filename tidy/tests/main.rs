//! The repository's tests of itself.

mod clauses;
mod documents;
mod files;
mod guides;
mod links;
mod rooms;
mod width;
