//! Proofs of the operator's decision, from the only place that creates them.

use std::path::Path;

use bardo_base::clock::{Clock, SystemClock};
use bardo_safety::custody::Reauthentication;
use bardo_safety::operator_proof::{Authorisation, OperatorProof};
use bardo_safety::stop::StopFile;

/// A proof for `wanted` in a data directory without keys, or on a devnet.
pub fn proof(folder: &Path, wanted: Authorisation, now: u64) -> OperatorProof {
    // An authorisation for one account needs its key except on a devnet; others need none in a folder without keys.
    let devnet = wanted.account().is_some();
    Reauthentication::new(folder, folder.join("keys")).prove(wanted, devnet, &[], now).unwrap()
}

/// Lifts the stop in force in a data directory without keys, as the operator does on a terminal.
pub fn lift(folder: &Path) {
    let (file, now) = (StopFile::in_folder(folder), SystemClock.now_millis());
    let shown = file.read();
    let proof = proof(folder, Authorisation::lower_stop(&shown, None), now);
    file.lower(&shown, None, "over", "operator", now, proof).unwrap();
}
