//! Asynchronous runtimes of all programs and tests, with stacks that an action's nested futures fit on.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Stack of each worker thread, in bytes: four times tokio's, because unoptimised code keeps every level of a nested
/// future's polling in a large frame. The system reserves it and fills in only what is used.
const STACK_BYTES: usize = 8 << 20;

/// Starts a runtime with this number of worker threads, or with one for each processor.
///
/// # Errors
/// If the system starts no thread.
pub fn multi_threaded(workers: Option<usize>) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    builder.thread_stack_size(STACK_BYTES).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses more stack than tokio gives to a worker, which is 2 MiB.
    #[test]
    fn a_task_may_use_more_stack_than_tokio_gives() {
        fn large() -> u8 {
            let mut frame = [1_u8; 3 << 20];
            std::hint::black_box(&mut frame);
            frame[0]
        }
        let runtime = multi_threaded(Some(1)).unwrap();
        let used = runtime.block_on(async { tokio::spawn(async { large() }).await });
        assert_eq!(used.unwrap(), 1);
    }
}
