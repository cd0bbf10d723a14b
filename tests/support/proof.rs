//! Proofs that the operator decided, from the one place that makes them. Shared by tests through `#[path]`.

use std::path::Path;

use bardo::base::clock::{Clock, SystemClock};
use bardo::custody::Reauthentication;
use bardo::safety::operator_proof::{Authorisation, OperatorProof};
use bardo::safety::stop::StopFile;

/// A proof for `wanted` in a data folder without keys, or on a devnet.
pub fn proof(folder: &Path, wanted: Authorisation, now: u64) -> OperatorProof {
    // What concerns one account takes its key except on a devnet; the rest takes none in a folder without keys.
    let devnet = wanted.account().is_some();
    Reauthentication::new(folder, folder.join("keys")).prove(wanted, devnet, &[], now).unwrap()
}

/// Lifts whatever stop is in force in a data folder without keys, as the operator does on a terminal.
#[allow(dead_code)] // Not every test that includes this file lifts one.
pub fn lift(folder: &Path) {
    let (file, now) = (StopFile::in_folder(folder), SystemClock.now_millis());
    let shown = file.read();
    let proof = proof(folder, Authorisation::lower_stop(&shown, None), now);
    file.lower(&shown, None, "over", "operator", now, proof).unwrap();
}
