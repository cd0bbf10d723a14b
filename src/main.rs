//! Arguments, error reports, logging, dispatch; nothing else.
#![forbid(unsafe_code)]

fn main() -> color_eyre::Result<()> {
    color_eyre::install()?;
    bardo::cli::run()
}
