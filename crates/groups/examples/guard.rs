//! The guard as a program of its own, for the tests of this room: `guard FILE`.

fn main() -> std::io::Result<()> {
    let file = std::env::args_os().nth(1).expect("usage: guard FILE");
    cavy_groups::guard::watch(file.as_ref())
}
