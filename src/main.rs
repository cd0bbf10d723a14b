//! Error reports; all else is the library's.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    bardo::base::private::owner_only_from_now_on();
    if let Err(error) = color_eyre::install() {
        // Without it a panic is still reported, only less well.
        eprintln!("bardo: error reports will be plain ({error})");
    }
    bardo::cli::run()
}
