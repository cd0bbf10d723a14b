//! Entry point, with error reports; everything else is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    bardo::base::private::owner_only_from_now_on();
    if let Err(error) = color_eyre::install() {
        // Panics are still reported without it, but in a plain format.
        eprintln!("bardo: error reports will be plain ({error})");
    }
    bardo::cli::run()
}
