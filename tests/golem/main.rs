//! The Golem's eight tools over the whole of what stands below: devnet, policy, ledger, pipeline, custody.

mod gates;
mod guardian;
mod model;
mod pi;
mod poison;
mod process;
mod world;
