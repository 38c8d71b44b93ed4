//! Drawing: documents to terminal text, one self-contained HTML file, SVG, Markdown, CSV and JSON.
pub mod model;
