//! Subcommands: parse, call, print. No rule of the product lives here.

/// Parses the command line and runs what it asks for.
///
/// # Errors
/// Whatever the command could not do, as one report for the terminal.
pub fn run() -> color_eyre::Result<()> {
    Ok(())
}
