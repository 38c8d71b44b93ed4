//! What the first pages say is what a reader gets: the commands of the tutorial are run, and what
//! stands below them is compared; the plan of the README is checked.

mod cavy;

use cavy::Cavy;

/// Code blocks of a page: their language, and what is in them.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some((language.to_string(), String::new())),
            (Some(_), Some(block)) => all.push(block),
            (None, Some((language, text))) => open = Some((language, format!("{text}{line}\n"))),
            (None, None) => {}
        }
    }
    all
}

fn page(path: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(file).expect("a page of the repository")
}

/// A line without what depends on the machine: how long it takes on how many cores.
fn steady(line: &str) -> String {
    let line = line.split(", about").next().unwrap_or(line);
    line.replace('\u{a0}', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Does `printed` have the lines of `expected`, in their order?
fn has_lines(printed: &str, expected: &str) {
    let mut lines = printed.lines().map(steady);
    for line in expected.lines().map(steady).filter(|line| !line.is_empty()) {
        assert!(lines.any(|one| one == line), "the page says\n{line}\nand the command\n{printed}");
    }
}

#[test]
fn the_tutorial_says_what_its_commands_print() {
    let cavy = Cavy::new();
    let blocks = blocks(&page("docs/tutorial/first-plan.md"));
    let mut printed = String::new();
    let mut compared = 0;
    for (language, text) in &blocks {
        match language.as_str() {
            "toml" => cavy.write("mine.toml", text),
            "sh" => {
                for line in text.replace("\\\n", " ").lines() {
                    let line = line.trim_start_matches("mkdir first && cd first").trim();
                    let Some(args) = line.strip_prefix("cavy ") else { continue };
                    let args: Vec<String> =
                        args.split_whitespace().map(|arg| arg.replace('\'', "")).collect();
                    let args: Vec<&str> = args.iter().map(String::as_str).collect();
                    // A second run would tell nothing new of the page.
                    if args[0] == "run" && args.len() > 2 {
                        let check: Vec<&str> = args
                            .iter()
                            .skip(2)
                            .copied()
                            .take_while(|arg| *arg != "--out")
                            .collect();
                        let args = [&["plan", "check", "mine.toml"], &check[..]].concat();
                        let output = cavy.call(&args);
                        let talk = String::from_utf8_lossy(&output.stderr);
                        assert!(output.status.success(), "{line}: {talk}");
                        continue;
                    }
                    let output = cavy.call(&args);
                    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success(), "{line}: {talk}");
                    printed = String::from_utf8_lossy(&output.stdout).into_owned();
                }
            }
            "text" if text.starts_with("error: ") => {
                let plan = std::fs::read_to_string(cavy.path("mine.toml")).expect("written");
                cavy.write("wrong/mine.toml", plan.replacen("workers", "worker", 1));
                let output = cavy
                    .command(&["plan", "check", "mine.toml"])
                    .current_dir(cavy.path("wrong"))
                    .output();
                let output = output.expect("the command starts");
                has_lines(&String::from_utf8_lossy(&output.stderr), text);
                compared += 1;
            }
            "text" if text.starts_with("get_us,") => {
                let file = std::fs::read_to_string(cavy.path("measured.csv")).expect("written");
                has_lines(&file, text);
                compared += 1;
            }
            "text" => {
                has_lines(&printed, text);
                compared += 1;
            }
            other => panic!("a block of `{other}` is not looked at"),
        }
    }
    assert_eq!(compared, 5, "blocks that were compared");
}

#[test]
fn the_plan_of_the_readme_is_one() {
    let cavy = Cavy::new();
    let page = page("README.md");
    let plan = blocks(&page).into_iter().find(|(language, _)| language == "toml");
    cavy.write("plan.toml", plan.expect("a plan").1);
    let output = cavy.call(&["plan", "check", "plan.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_guide_of_regions_can_be_followed_to_the_letter() {
    let cavy = Cavy::new();
    let blocks = blocks(&page("docs/guides/nearest-region.md"));
    let mut files = blocks.iter().filter(|(language, _)| language == "csv");
    for name in ["nodes.csv", "pairs.csv"] {
        let (_, text) = files.next().expect("the page has both files");
        cavy.write(name, text);
    }
    let (mut folder, mut followed) = (cavy.path(""), 0);
    for (_, text) in blocks.iter().filter(|(language, _)| language == "sh") {
        for line in text.replace("\\\n", " ").lines() {
            if let Some(name) = line.strip_prefix("mkdir ") {
                folder = cavy.path(name.split(' ').next().expect("a name"));
                std::fs::create_dir(&folder).expect("a folder");
            }
            let Some(args) = line.strip_prefix("cavy ") else { continue };
            // A database and the service are not here.
            if args.contains("--mmdb") || args.starts_with("live") {
                continue;
            }
            // That the plan is sound is enough.
            let args = args.replace("run ", "plan check ");
            let args: Vec<&str> = args.split_whitespace().collect();
            let output = cavy.command(&args).current_dir(&folder).output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {said}");
            followed += 1;
        }
    }
    assert_eq!(followed, 8, "commands of the page");
    let page = std::fs::read_to_string(cavy.path("map.html")).expect("a page with a map");
    assert!(page.contains("<svg") && page.contains("carol"));
}
