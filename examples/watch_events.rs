//! Watching the Event Fabric: `bardo golem run --headless --scenario first-tour | cargo run --example watch_events`.
//!
//! Reads events as JSON lines, from stdin or from the recording that is named, and prints one line for each that an
//! operator would care about. A recording begins with a line that names its version; it is no event and is skipped.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use bardo::fabric::{Event, EventKind};

fn main() -> Result<(), Box<dyn Error>> {
    let input: Box<dyn BufRead> = match std::env::args().nth(1) {
        Some(file) => Box::new(BufReader::new(File::open(file)?)),
        None => Box::new(io::stdin().lock()),
    };
    for line in input.lines() {
        let Ok(event) = serde_json::from_str::<Event>(&line?) else { continue };
        let (seq, golem) = (event.seq, &event.golem_id);
        match &event.kind {
            EventKind::ToolStart(start) => println!("{seq:>5} {golem} calls {}", start.tool_name),
            EventKind::ToolError(failed) => {
                println!("{seq:>5} {golem} {:?}: {}", failed.error_code, failed.error_message)
            }
            EventKind::ApprovalRequested(asked) => println!("{seq:>5} {golem} waits for approval: {}", asked.title),
            EventKind::TxUpdate(update) => println!("{seq:>5} {golem} transaction {}", update.hash),
            EventKind::PhaseChanged(change) => println!("{seq:>5} {golem} is {} now", change.to),
            EventKind::HaltRaised(change) => println!("{seq:>5} stop: {:?}", change.level),
            _ => {}
        }
    }
    Ok(())
}
