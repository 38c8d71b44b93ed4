//! The guard as a program of its own, for the tests of this room: `guard FILE`, or
//! `guard FILE --second` for the one behind it.

use std::process::Command;

fn main() -> std::io::Result<()> {
    let file = std::env::args_os().nth(1).expect("usage: guard FILE");
    if std::env::args_os().nth(2).is_some() {
        return cavy_groups::guard::stand_in(file.as_ref());
    }
    let mut second = Command::new(std::env::current_exe()?);
    cavy_groups::guard::watch(file.as_ref(), second.arg(&file).arg("--second"))
}
