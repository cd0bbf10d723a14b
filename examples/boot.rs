//! Boots the devnet and prints the duration of each step: `cargo run --release --example boot`.

use std::time::Instant;

use bardo::sandbox::genesis::StartStage;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig, SandboxError};

fn main() -> Result<(), SandboxError> {
    let began = Instant::now();
    let config = SandboxConfig {
        seed: 1,
        start_time: 1_800_000_000,
        pace: BlockPace::Manual,
        clock: None,
        market: MarketMode::On,
        keeper: true,
    };
    let sandbox = Sandbox::boot(&config, &|progress| {
        if !matches!(progress.stage, StartStage::Past { done, of } if done % 60 != 1 && done != of) {
            println!("{:>9.1?}  {:<8} {:?}", began.elapsed(), progress.chain, progress.stage);
        }
    })?;
    println!("{:>9.1?}  {} chains ready", began.elapsed(), sandbox.chains().len());
    Ok(())
}
