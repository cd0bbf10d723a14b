//! How Bardo configures revm: one place for spec, block environment and fee rules, used by the devnet and by the fork simulation.
