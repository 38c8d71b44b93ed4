//! Runs the first commands of the guides: `make guides`. Takes the folder of results, and folders
//! with the programs `cavy` and `cavy-live`; after `--` the names of the only guides to run.

use cavy_tidy::guides::{self, Guide};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[allow(clippy::disallowed_methods, reason = "a command of its own")]
    let (args, path) =
        (std::env::args().skip(1).collect::<Vec<_>>(), std::env::var("PATH").unwrap_or_default());
    let Some((out, folders)) = args.split_first() else {
        eprintln!("error: name the folder of results, then folders with programs");
        return ExitCode::from(2);
    };
    let mut parts = folders.splitn(2, |arg| arg == "--");
    let (folders, only) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let path = [folders.join(":"), path].join(":");
    let has = |name: &str| folders.iter().any(|folder| Path::new(folder).join(name).is_file());
    let (mut passed, mut failed) = (0, 0);
    let wanted = |guide: &&Guide| only.is_empty() || only.iter().any(|page| page == guide.page);
    for guide in guides::GUIDES.iter().filter(wanted) {
        let page = guide.page;
        if guide.serves.is_some() && !has("cavy-live") {
            println!("SKIPPED: {page}: cavy-live is not built (make live)");
            continue;
        }
        match run(guide, Path::new(out), &path) {
            Ok(()) => {
                passed += 1;
                println!("docs/guides/{page}.md: ok");
            }
            Err(why) => {
                failed += 1;
                println!("docs/guides/{page}.md: FAILED\n{why}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

fn run(guide: &Guide, out: &Path, path: &str) -> Result<(), String> {
    let folder = out.join(guide.page);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let said = guides::run(guide, &folder, path)?;
    std::fs::write(out.join(format!("{}.txt", guide.page)), said).map_err(|error| error.to_string())
}
