//! Documents say what the program says.

use cavy_tidy::{documents, files, none};

#[test]
fn generated_parts_are_as_the_program_has_them() {
    let parts = documents::parts();
    let mut faults = Vec::new();
    let mut seen = String::new();
    for file in files().iter().filter(|file| file.path.ends_with(".md")) {
        match documents::renewed(&file.text, &parts) {
            Ok(text) if text == file.text => {}
            Ok(_) => faults.push(format!("{}: `make docs` writes it anew", file.path)),
            Err(why) => faults.push(format!("{}: {why}", file.path)),
        }
        seen.push_str(&file.text);
    }
    for (name, _) in parts.iter().filter(|(name, _)| !name.starts_with(documents::OF_CLAIMS)) {
        if !seen.contains(&format!("<!-- generated: {name} -->")) {
            faults.push(format!("no document has the generated part `{name}`"));
        }
    }
    none("generated parts of documents are current", &faults);
}

#[test]
fn a_part_is_replaced_between_its_marks() {
    let parts = vec![("a".to_string(), "new\n".to_string())];
    let text = "x\n<!-- generated: a -->\nold\n<!-- end -->\ny\n";
    let renewed = documents::renewed(text, &parts).expect("well formed");
    assert_eq!(renewed, "x\n<!-- generated: a -->\n\nnew\n\n<!-- end -->\ny\n");
    assert_eq!(documents::renewed(&renewed, &parts).as_deref(), Ok(renewed.as_str()));
    assert!(documents::renewed("<!-- generated: b -->\n<!-- end -->", &parts).is_err());
    assert!(documents::renewed("<!-- generated: a -->\nold", &parts).is_err());
}
