//! The Golem's eight tools over the whole of what stands below: devnet, policy, ledger, pipeline, custody.

mod guardian;
mod pi;
mod poison;
mod world;
