//! What the outside programs of these tests need: where they are, and whose money they use.

/// The mnemonic every development chain uses (<https://getfoundry.sh/anvil/reference>); worthless elsewhere.
pub const MNEMONIC: &str = "test test test test test test test test test test test junk";

/// A tool's place, from the environment that `.ci/tools/install` prints.
pub fn tool(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run eval \"$(.ci/tools/install)\" first"))
}
