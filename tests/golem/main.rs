//! The Golem's eight tools over the real lower layers: devnet, policy, ledger, pipeline, custody.

mod across;
mod agent;
mod death;
mod elsewhere;
mod exits;
mod figures;
mod gates;
mod guardian;
mod identity;
mod keys;
mod leaving;
mod liquidation;
mod long_life;
mod model;
mod model_limits;
mod moments;
mod on_death;
mod pi;
mod poison;
mod process;
mod roles;
mod shows;
mod transfer;
mod words;
