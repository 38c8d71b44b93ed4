//! Search over many servers, live: the machines of `cavy-search` as processes, with tantivy as the
//! index of a server and Elasticsearch's HTTP interface in front.

pub mod api;
pub mod cluster;
pub mod corpus;
pub mod date;
pub mod engine;
pub mod study;
