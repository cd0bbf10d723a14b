//! Locations of the external programs of these tests, and their accounts.

/// Mnemonic of all development chains (<https://getfoundry.sh/anvil/reference>); worthless elsewhere.
pub const MNEMONIC: &str = "test test test test test test test test test test test junk";

/// Path of a tool, from the environment that `.ci/tools/install` prints.
pub fn tool(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run eval \"$(.ci/tools/install)\" first"))
}
