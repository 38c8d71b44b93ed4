//! Drawing: a document of claims, figures and tables becomes terminal text, one HTML file, SVG,
//! Markdown, CSV or JSON.
//!
//! **Problem.** A reader must be able to judge a reproduced figure at a glance, on a phone, on
//! paper and in a terminal, and get at every number behind it.
//!
//! **Promise.** All drawings of a [`Document`](model::Document) say the same: they share the
//! wording, the rounding and the frame of each plot. What cannot be a number (an unstable
//! system, too few samples) is shown as that fact and never as a point. The same document gives
//! the same bytes. Labels may come from a user's file: they are escaped everywhere.
//!
//! **Not here.** No protocol, no simulation, no statistics; no clock, environment or argument;
//! nothing is printed. Files are written by [`folder`] and [`mod@file`] alone.
//!
//! **Reading order.** [`model`] is what can be drawn; [`words`] and [`number`] are how it is
//! said; [`terminal`], [`markdown`] and [`series`] are plain text; [`svg`] and [`html`] are
//! plots, both from one private frame (ranges, ticks, unstable stretches) and one palette;
//! [`mod@map`] is places on the Earth.
//! [`folder`] is where all of them go, and [`mod@file`] how each is written.
#![cfg_attr(test, allow(non_snake_case))]

pub mod file;
pub mod folder;
mod frame;
pub mod html;
pub mod map;
pub mod markdown;
pub mod model;
pub mod number;
mod palette;
pub mod series;
pub mod svg;
pub mod terminal;
pub mod units;
pub mod words;

pub use palette::{Styles, Theme};
