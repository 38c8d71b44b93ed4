//! Writes the documentation as mdBook reads it into the folder that is named: `make site`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("error: name the folder to write");
        return ExitCode::from(2);
    };
    match cavy_tidy::site::write(Path::new(&folder)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write {}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}
