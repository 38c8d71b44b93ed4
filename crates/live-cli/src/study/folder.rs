//! The folder that reports and recordings are written into.

use crate::faults::{FAILED, Fault};
use cavy_report::model::Document;
use cavy_report::{Theme, html, series, svg};
use std::path::{Path, PathBuf};

/// An output folder, there and writable before anything is measured.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder if needed, and sees that it can be written to.
    pub fn open(path: &Path) -> Result<Folder, Fault> {
        let trial = path.join(".trial");
        std::fs::create_dir_all(path.join("svg"))
            .and_then(|()| std::fs::write(&trial, b""))
            .and_then(|()| std::fs::remove_file(&trial))
            .map_err(|error| {
                let path = path.display();
                Fault::new(format!("cannot write to the output folder `{path}`: {error}"))
                    .hint("name another folder with `--out DIR`")
            })?;
        Ok(Folder { path: path.to_path_buf() })
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let file = self.path.join(name);
        // Beside it first, so that no report is ever half written.
        let part = self.path.join(format!(".{}.part", name.replace('/', "-")));
        let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &file));
        written.map_err(|error| {
            Fault::new(format!("cannot write `{}`: {error}", file.display())).code(FAILED)
        })
    }

    /// Writes all files of a document and says where its report is.
    pub fn write_document(&self, document: &Document) -> Result<PathBuf, Fault> {
        for figure in &document.figures {
            for panel in &figure.panels {
                let name = format!("svg/{}-{}", figure.id, panel.id);
                self.write(&format!("{name}.svg"), &svg::panel(panel, Theme::Light))?;
                self.write(&format!("{name}-dark.svg"), &svg::panel(panel, Theme::Dark))?;
            }
        }
        self.write("series.csv", &series::csv(document))?;
        self.write("tables.csv", &series::tables_csv(document))?;
        let claims = serde_json::to_value(&document.claims).unwrap_or_default();
        self.write("claims.json", &format!("{claims:#}\n"))?;
        self.write("report.json", &series::json(document))?;
        self.write("report.html", &html::render(document))?;
        Ok(self.join("report.html"))
    }
}
