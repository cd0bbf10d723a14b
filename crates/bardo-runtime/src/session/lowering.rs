//! Test helper that lowers a stop as the operator does.

use std::path::Path;

use bardo_base::model::StopLevel;
use bardo_safety::custody::Reauthentication;
use bardo_safety::operator_proof::Authorisation;
use bardo_safety::stop::{ActiveStop, StopFile};

/// Lowers the stop of a data directory without keys to `level`, or lifts it; returns the stop then in force. `now` in
/// milliseconds since the Unix epoch.
pub(super) fn lower(folder: &Path, level: Option<StopLevel>, now: u64) -> ActiveStop {
    let file = StopFile::in_folder(folder);
    let shown = file.read();
    let wanted = Authorisation::lower_stop(&shown, level);
    let proof = Reauthentication::new(folder, folder.join("keys")).prove(wanted, false, &[], now).unwrap();
    file.lower(&shown, level, "", "operator", now, proof).unwrap()
}
