//! The short report after the console has closed.

use super::{Failure, print};
use crate::runtime::handle::Farewell;

/// Prints what came of the run.
pub(super) fn say(told: &Farewell) -> Result<(), Failure> {
    print(&text(told))
}

fn text(told: &Farewell) -> String {
    let mut text = format!(
        "{} trades, {} blocked, {} refused, {} unanswered, {} failed.\n",
        told.trades, told.blocked, told.refused, told.lapsed, told.failed
    );
    if let Some((before, after)) = told.equity {
        let change = match after.checked_sub(before) {
            Ok(more) => {
                format!("+${}", crate::base::format::grouped(&more.to_fixed(2, crate::base::units::Rounding::Down)))
            }
            Err(_) => match before.checked_sub(after) {
                Ok(less) => {
                    format!("-${}", crate::base::format::grouped(&less.to_fixed(2, crate::base::units::Rounding::Down)))
                }
                Err(_) => "not known".to_owned(),
            },
        };
        text.push_str(&format!(
            "Worth {} at first and {} at last, gas included: {change}.\n",
            crate::base::format::dollars(before),
            crate::base::format::dollars(after)
        ));
    }
    for line in &told.unsettled {
        text.push_str(&format!("Not settled yet: {line}; the next start settles it.\n"));
    }
    for line in &told.remarks {
        text.push_str(&format!("{line}\n"));
    }
    if let Some(journal) = &told.journal {
        text.push_str(&format!("The run is recorded in {journal}\n"));
    }
    text
}
