//! The command `cavy-txn`: what `cavy live txn` does, for who needs nothing else of cavy on a host.

use clap::Parser as _;
use std::process::ExitCode;

#[derive(clap::Parser, Debug)]
#[command(name = "cavy-txn", version, about = "A store of transactions across regions")]
struct Args {
    #[command(flatten)]
    txn: cavy_txn_cli::Txn,
}

fn main() -> ExitCode {
    match cavy_txn_cli::txn(&Args::parse().txn, &[]) {
        Ok(code) => code,
        Err(fault) => {
            cavy_txn_cli::talk(&fault.to_string());
            ExitCode::from(fault.code)
        }
    }
}
