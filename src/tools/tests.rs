//! The tools on the embedded devnet.
