//! Writes the genesis snapshot by running the constructors of both devnet chains: `cargo run --release --example
//! genesis`. Required after a change of the devnet's contracts, plan or deployment; a test of `bardo-sandbox` detects
//! that.

use std::error::Error;
use std::path::Path;

use bardo::sandbox::snapshot::build_snapshot;

fn main() -> Result<(), Box<dyn Error>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/genesis/devnet.bin");
    let bytes = build_snapshot()?;
    std::fs::write(&file, &bytes)?;
    println!("{}: {} KiB", file.display(), bytes.len() >> 10);
    Ok(())
}
