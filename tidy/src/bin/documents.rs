//! Writes the generated parts of all documents: `make docs`.

use cavy_tidy::{documents, files, root};
use std::process::ExitCode;

fn main() -> ExitCode {
    let parts = documents::parts();
    for file in files().iter().filter(|file| file.path.ends_with(".md")) {
        match documents::renewed(&file.text, &parts) {
            Ok(text) if text == file.text => {}
            Ok(text) => {
                if let Err(error) = std::fs::write(root().join(&file.path), text) {
                    eprintln!("error: cannot write {}: {error}", file.path);
                    return ExitCode::FAILURE;
                }
                eprintln!("wrote {}", file.path);
            }
            Err(why) => {
                eprintln!("error: {}: {why}", file.path);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
