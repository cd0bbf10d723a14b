//! The bare devnet: a revm-backed chain on a thread of its own, and the ways to speak to it.
