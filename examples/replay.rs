//! Replaying a recording in another program: `cargo run --example replay -- FILE [SPEED_PERCENT]`.
//!
//! A recording is opened as a session that only plays: the same `SessionHandle`, news and commands as a live one. This
//! program prints what each piece of news holds; `bardo replay FILE` draws it.

use std::error::Error;
use std::path::Path;

use bardo::session::handle::SessionNews;
use bardo::session::replay;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let file = words.next().ok_or("name a recording: leaving the console says where one is")?;
    let speed = words.next().map_or(Ok(100_000), |word| word.parse())?;
    let mut handle = replay::open(Path::new(&file), speed)?;
    while let Some(news) = handle.news.recv().await {
        match news {
            SessionNews::Events(events) => {
                for event in events {
                    println!("{}", serde_json::to_string(&*event)?);
                }
            }
            SessionNews::Replay(now) => {
                eprintln!("{} of {} events", now.told, now.of);
                if now.told == now.of {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
